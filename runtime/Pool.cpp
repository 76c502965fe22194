// The thread pool: the only file that includes TBB, so that the thread sanitizer can be told of its forks and joins.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Pool.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

// The distribution's libtbb is not instrumented, and its templates in this file would be: the thread sanitizer would see
// races where TBB synchronises by atomics it cannot watch. So this file is compiled without the sanitizer, and says
// itself what happens before what.
#if defined(YAGLOM_TSAN)
extern "C" void __tsan_acquire(void *address);
extern "C" void __tsan_release(void *address);
#else
static void __tsan_acquire(void *) {}
static void __tsan_release(void *) {}
#endif

namespace yaglom::runtime {
namespace {

/// True in the child of a fork(): TBB's workers did not come along, so everything runs on the calling thread.
std::atomic<bool> workersLost = false;

/// One arena for each number of threads asked for; the workers behind them are the process's own, shared by all arenas.
/// Never destroyed: a kernel may still be launched while the process exits.
tbb::task_arena &arenaFor(int threads) {
  using Arenas = std::map<int, std::unique_ptr<tbb::task_arena>>;
  // Needs no initialisation at run time, whose guard the thread sanitizer could not see in this file.
  static constinit std::mutex mutex;
  static constinit Arenas *arenas = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!arenas) {
    arenas = new Arenas;
    pthread_atfork(nullptr, nullptr, [] { workersLost = true; });
  }
  std::unique_ptr<tbb::task_arena> &arena = (*arenas)[threads];
  if (!arena)
    arena = std::make_unique<tbb::task_arena>(threads);
  return *arena;
}

/// `threads`, or all that there are for 0. TBB would print a warning when asked for more than the process may use.
int allowedThreads(int threads) {
  const auto limit = tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  const int most = static_cast<int>(std::min<std::size_t>(limit, 1 << 16));
  return threads == 0 ? std::min(defaultThreads(), most) : std::min(threads, most);
}

/// What a thread did before the end of this object's life happens before what follows an After of the same place, also
/// when an exception ends both.
struct Before {
  char &place;
  ~Before() { __tsan_release(&place); }
};
struct After {
  char &place;
  ~After() { __tsan_acquire(&place); }
};

} // namespace

int defaultThreads() {
  static const int threads = tbb::info::default_concurrency();
  return threads;
}

void parallelFor(int64_t items, int threads, const ItemRange &body) {
  if (items <= 0)
    return;
  // Asked in this order: a launch on one thread does not touch TBB at all.
  if (threads == 1 || items == 1 || workersLost || (threads = allowedThreads(threads)) == 1)
    return body(0, items);

  [[maybe_unused]] char fork = 0;
  [[maybe_unused]] char join = 0;
  __tsan_release(&fork);
  const After joined{join};
  arenaFor(threads).execute([&] {
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, items), [&](const tbb::blocked_range<int64_t> &range) {
      __tsan_acquire(&fork);
      const Before joining{join};
      body(range.begin(), range.end());
    });
  });
}

} // namespace yaglom::runtime
