// The pool and the scratch of its threads: every item once, the same bits for any number of threads, nothing allocated
// by a warm launch.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Pool.h"
#include "runtime/Scratch.h"
#include "tests/unit/Catch.h"
#include "tests/unit/runtime/Fake.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <dirent.h>
#include <new>
#include <thread>

using namespace yaglom;
using namespace yaglom::fake;

#if !defined(YAGLOM_ASAN) && !defined(YAGLOM_TSAN)
#define COUNT_ALLOCATIONS 1
#endif

namespace {

std::atomic<int64_t> allocations = 0;

} // namespace

#if defined(COUNT_ALLOCATIONS)
void *operator new(std::size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
#pragma GCC diagnostic ignored "-Wmismatched-new-delete" // both halves are replaced, which g++ does not see
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace {

int countThreads() {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks)
    return 0;
  while (const dirent *entry = readdir(tasks))
    count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

std::vector<int> visits(int64_t items, int threads) {
  std::vector<int> counts(static_cast<std::size_t>(items), 0);
  runtime::parallelFor(items, threads, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item)
      ++counts[static_cast<std::size_t>(item)];
  });
  return counts;
}

} // namespace

TEST_CASE("every item runs once, whatever the number of threads") {
  for (int threads : {0, 1, 2, 3, 16})
    for (int64_t items : {0, 1, 2, 7, 1000}) {
      const std::vector<int> counts = visits(items, threads);
      CHECK(std::all_of(counts.begin(), counts.end(), [](int count) { return count == 1; }));
    }
}

TEST_CASE("one thread means the calling one") {
  const std::thread::id self = std::this_thread::get_id();
  runtime::parallelFor(100, 1, [&](int64_t begin, int64_t end) {
    CHECK(begin == 0);
    CHECK(end == 100);
    CHECK(std::this_thread::get_id() == self);
  });
}

TEST_CASE("an exception of an item reaches the caller") {
  for (int threads : {1, 2})
    CHECK(message([&] {
            runtime::parallelFor(100, threads, [](int64_t, int64_t) { throw Error("no memory for this item"); });
          }) == "no memory for this item");
}

TEST_CASE("several threads may launch at a time") {
  std::atomic<int64_t> sum = 0;
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat)
        runtime::parallelFor(50, 2, [&](int64_t begin, int64_t end) { sum += end - begin; });
    });
  callers.clear();
  CHECK(sum == 8 * 20 * 50);
}

TEST_CASE("scratch is aligned, kept, and grows") {
  void *first = runtime::threadScratch(100);
  CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
  CHECK(runtime::threadScratch(100) == first);
  auto *large = static_cast<char *>(runtime::threadScratch(1 << 20));
  large[(1 << 20) - 1] = 1;
  CHECK(reinterpret_cast<uintptr_t>(large) % 64 == 0);
}

TEST_CASE("scratch belongs to one thread") {
  void *mine = runtime::threadScratch(64);
  void *other = nullptr;
  std::thread([&] { other = runtime::threadScratch(64); }).join();
  CHECK(other != mine);
}

TEST_CASE("any number of threads gives the same bits") {
  const Shape shape{3, 5, 40, kWidth};
  const Tensor q = numbers(shape, 1), k = numbers(shape, 2), v = numbers(shape, 3);
  const Kernel kernel = linear<float>(true);
  Tensor expected(DType::f32, shape);
  kernel.forward({q.ref(), k.ref(), v.ref()}, gains(5), expected, {.threads = 1});
  for (int threads : {0, 2, 3, 8}) {
    Tensor found(DType::f32, shape);
    kernel.forward({q.ref(), k.ref(), v.ref()}, gains(5), found, {.threads = threads});
    CHECK(sameBits(found, expected));
  }
}

TEST_CASE("a head does not see its batch") {
  const Shape shape{2, 2, 9, kWidth}, one{1, 2, 9, kWidth};
  const Tensor q = numbers(shape, 1), k = numbers(shape, 2), v = numbers(shape, 3);
  const Kernel kernel = linear<float>(true);
  Tensor both(DType::f32, shape), second(DType::f32, one);
  kernel.forward({q.ref(), k.ref(), v.ref()}, gains(2), both);
  const auto half = [&](const Tensor &tensor) {
    return TensorRef(static_cast<const float *>(tensor.data()) + tensor.size() / 2, one);
  };
  kernel.forward({half(q), half(k), half(v)}, gains(2), second);
  for (int64_t i = 0; i < second.size(); ++i)
    CHECK(second.at(i) == both.at(second.size() + i));
}

TEST_CASE("a warm launch allocates nothing") {
  const Shape shape{1, 2, 3, kWidth};
  const Tensor q = numbers(shape, 1), k = numbers(shape, 2), v = numbers(shape, 3);
  Tensor o(DType::f32, shape);
  const Kernel kernel = linear<float>(true);
  const Parameters parameters = gains(2);
  const std::vector<TensorRef> inputs{q.ref(), k.ref(), v.ref()};
  const TensorRef output = o;
  kernel.forward(inputs, parameters, output, {.threads = 1});
  const int64_t before = allocations;
  for (int repeat = 0; repeat < 10; ++repeat)
    kernel.forward(inputs, parameters, output, {.threads = 1});
  CHECK(allocations == before);
}

// A process of its own: in this one other tests may have started threads before.
TEST_CASE("one thread starts no thread, and a child of a fork still computes") {
  const Shape shape{2, 4, 9, kWidth};
  const Tensor q = numbers(shape, 1), k = numbers(shape, 2), v = numbers(shape, 3);
  const Kernel kernel = linear<float>(true);
  Tensor expected(DType::f32, shape);
  const int before = countThreads();
  kernel.forward({q.ref(), k.ref(), v.ref()}, gains(4), expected, {.threads = 1});
  CHECK(countThreads() == before);
  Tensor parallel(DType::f32, shape);
  kernel.forward({q.ref(), k.ref(), v.ref()}, gains(4), parallel, {.threads = 2});

#if !defined(YAGLOM_TSAN) // which refuses threads in a child
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    Tensor found(DType::f32, shape);
    kernel.forward({q.ref(), k.ref(), v.ref()}, gains(4), found, {.threads = 2});
    _exit(sameBits(found, expected) ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
#endif
}
