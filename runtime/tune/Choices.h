// Which program a launch runs: the compiler's own schedule, or the tuned one for its sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "runtime/tune/Bucket.h"
#include "yaglom/compile.h"

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace yaglom::runtime {

struct Compiled;

/// A schedule with the program of one pass by it. That of the gradient from a residual has the chunk of the forward program for the
/// same sizes.
struct Choice {
  Schedule schedule;
  std::shared_ptr<const compiler::Program> forward;
  std::shared_ptr<const compiler::BackwardProgram> backward; ///< of the other two passes
};

/// The choices of one kernel, looked up when sizes of a bucket are first launched; after that a launch reads one word of
/// memory. What is tuned later in this process is found at the next launch.
class Choices {
public:
  /// Throws the Error of compiling the compiler's own schedule. A tuned one that does not compile is a warning.
  const Choice &of(const Compiled &compiled, Pass pass, const Sizes &sizes) const;
  /// Looks up all smaller sizes too, without tuning those. Returns what there is, each once, this one last.
  std::vector<const Choice *> upTo(const Compiled &compiled, Pass pass, const Sizes &sizes) const;

private:
  static constexpr std::size_t kPasses = 3;
  using Slots = std::array<std::atomic<const Choice *>, Bucket::kCount>;

  const Choice &lookUp(const Compiled &compiled, Pass pass, const Sizes &sizes, const Bucket &bucket,
                       bool mayTune) const;
  const Choice *make(const Compiled &compiled, Pass pass, const Schedule &schedule) const;
  void forgetOld() const;

  mutable std::array<Slots, kPasses> slots{};
  mutable std::atomic<uint64_t> generation = 0;
  mutable std::mutex mutex;
  mutable std::array<std::deque<Choice>, kPasses> made; ///< never moved or freed: launches hold references
};

/// The schedule with another chunk; one text for one schedule, so the compiler's own chunk is not spelled out.
Schedule withChunk(const Compiled &compiled, Schedule schedule, int64_t chunk);

/// Workers that items are dealt to: cores, or the multiprocessors of a GPU.
int64_t workersOf(const Compiled &compiled);

} // namespace yaglom::runtime
