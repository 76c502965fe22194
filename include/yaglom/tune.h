// Measuring schedules of a kernel, keeping the fastest, and using it from then on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/compile.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace yaglom {

/// What became of a candidate.
enum class TuneOutcome {
  Measured,
  Failed,     ///< it does not compile, or its launch fails
  Wrong,      ///< its numbers are not those of the reference, or of the compiler's own schedule
  Hung,       ///< it was not done in time
  NotReached, ///< the budget had ended
};

/// "measured", "failed" ...
YAGLOM_API const char *toText(TuneOutcome outcome);

/// One schedule, and what was seen of it.
struct TuneCandidate {
  Schedule schedule;
  TuneOutcome outcome = TuneOutcome::NotReached;
  std::string message{};  ///< why it was rejected
  double medianMs = 0;    ///< of a launch
  double spreadMs = 0;    ///< median distance from the median
  double ratio = 1;       ///< its time over that of the compiler's own schedule, both measured in turns; 1.0 is as fast
  double ratioSpread = 0; ///< the ratio is known within this much
  int64_t samples = 0;    ///< launches, or groups of short ones, that were timed
  bool isNew = true;      ///< false: measured by an earlier call
};

struct TuneProgress {
  double seconds = 0, budgetSeconds = 0;
  std::size_t done = 0;                ///< candidates measured or rejected
  const TuneCandidate *last = nullptr; ///< the latest of them; null at the beginning
  const Schedule *fastest = nullptr;   ///< so far
  double fastestRatio = 1;             ///< as TuneCandidate::ratio
};

/// What to tune for, and how long. Sizes that share a bucket share the result: powers of two of the length, and of
/// batch * heads for each core of this machine.
struct TuneOptions {
  Pass pass = Pass::Forward;
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t length = 4096;
  double budgetSeconds = 30;
  double candidateSeconds = 60; ///< a candidate that takes longer to be compiled and checked counts as hung
  int threads = 0;              ///< of the launches that are timed; 0: one a core
  bool again = false;           ///< forgets what was measured before
  const std::atomic<bool> *cancel = nullptr;            ///< ends when it becomes true, and keeps what was measured
  std::function<void(const TuneProgress &)> progress{}; ///< called after each candidate, by the thread that tunes
};

struct TuneReport {
  std::vector<TuneCandidate> candidates; ///< the compiler's own schedule first, then in the order of being tried
  std::size_t chosen = 0;                ///< among them
  std::string bucket;                    ///< "up to 4096 tokens, 4 heads a worker"
  std::string message;   ///< what a user should know, such as that every candidate was rejected; mostly empty
  bool complete = false; ///< nothing was left to measure
  double seconds = 0;

  const TuneCandidate &fastest() const { return candidates[chosen]; }
};

/// Looks for the fastest schedule of `attention` at these sizes, and stores it: kernels of this process use it from their next
/// launch on, other processes when they share the cache folder. What earlier calls measured is not measured again. Works on
/// tensors of its own, and compiles and checks each candidate in a child process, so that none can harm this one; no other
/// thread should compile meanwhile. `options.schedule` must be left alone.
///
///     tune(spec, "performer", {}, {.heads = 16, .length = 8192, .budgetSeconds = 60}).value();
YAGLOM_API Result<TuneReport> tune(const Spec &spec, const std::string &attention, const CompileOptions &options = {},
                                   const TuneOptions &tuning = {});

/// Whether launches use tuned schedules.
enum class TuneMode {
  Off,  ///< never: the compiler's own schedule
  Load, ///< where there is one
  On,   ///< and the first launch of sizes that were never tuned tunes them
};

struct TuneSettings {
  std::optional<TuneMode> mode; ///< unset: $YAGLOM_TUNE (off, load or on), else Load
  double budgetSeconds = 5;     ///< of a launch that tunes
};

/// For all of this process, from now on.
YAGLOM_API void setTuning(TuneSettings settings);

/// Writes every tuned schedule of the cache folder to a file (JSON). Returns how many.
YAGLOM_API Result<int64_t> exportSchedules(const std::string &path);

struct ImportedSchedules {
  int64_t used = 0;    ///< are in the cache folder now
  int64_t foreign = 0; ///< of another machine, or of another build of yaglom: left out
};
/// Takes over the tuned schedules of such a file, in place of those for the same sizes. The Error says what is wrong with it.
YAGLOM_API Result<ImportedSchedules> importSchedules(const std::string &path);

} // namespace yaglom
