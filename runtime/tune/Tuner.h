// Measures candidates for one pass of one attention at one size, the most promising first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Candidates.h"
#include "runtime/Compiled.h"
#include "runtime/tune/Check.h"
#include "runtime/tune/Record.h"
#include "runtime/tune/Timing.h"
#include "yaglom/tune.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace yaglom::runtime::tune {

/// What tests put in the place of the target.
struct Hooks {
  std::optional<std::vector<Schedule>> candidates;
  std::function<void(const Schedule &)> inChild;             ///< before a candidate is built there
  std::function<void(const Schedule &, Parameters &)> spoil; ///< changes what a candidate computed
};

/// True where the kernel runs on a GPU; an emulated one is the host.
bool isGpuOfThisMachine(const Compiled &compiled);
inline Clock::duration toDuration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// tune() with hooks.
Result<TuneReport> tuneWith(const Spec &spec, const std::string &attention, const CompileOptions &options,
                            const TuneOptions &tuning, const Hooks &hooks);

/// Of a launch of `compiled` whose sizes were never tuned. `forward`: what fills the residual, if the pass has one.
Result<TuneReport> tuneLaunch(const Compiled &compiled, Pass pass, const Sizes &sizes, const Choice *forward);
/// How often that was done in this process.
int64_t launchesTuned();

class Tuner {
public:
  /// `forward`: what fills the residual of the gradient from one; the program's chunk is that one's.
  Tuner(const Compiled &compiled, const Sizes &sizes, const TuneOptions &options, const Hooks &hooks,
        const Choice *forward);

  TuneReport run();

private:
  /// A candidate that is ready to be timed.
  struct Ready {
    Schedule schedule;
    std::string artifact; ///< of its program; empty for the compiler's own
    std::unique_ptr<Subject> subject;
    double ratio = 1; ///< to the compiler's own
  };

  void begin();
  bool prepare();
  void search();
  std::optional<Schedule> next() const;
  void attempt(const Schedule &schedule);
  TuneCandidate examine(const Schedule &schedule, Ready &ready);
  std::string checkInChild(const Schedule &schedule) const;
  void measure(TuneCandidate &candidate, Ready &ready);
  void confirm();
  void finish();
  void keep(bool complete);
  void report(const TuneCandidate *last) const;

  Kernel kernelBy(const Schedule &schedule, const std::string &artifact,
                  const std::shared_ptr<GpuDevice> &device) const;
  std::string build(const Schedule &schedule) const;
  compiler::Keeps keeps() const;
  CompileOptions optionsBy(const Schedule &schedule) const;
  bool isCancelled() const { return options.cancel && options.cancel->load(); }
  bool isOver() const { return isCancelled() || Clock::now() >= searchEnd(); }
  double seconds() const;
  /// Until when candidates may be looked at: the rest is for comparing the fastest with the compiler's own once more.
  Clock::time_point searchEnd() const;
  const TuneCandidate *find(const Schedule &schedule) const;

  const Compiled &compiled;
  const Sizes sizes;
  const TuneOptions &options;
  const Hooks &hooks;
  const std::shared_ptr<const compiler::Program> forward; ///< unless the pass is forward
  const cache::Key key;
  const Clock::time_point start;
  const Clock::time_point end;
  std::optional<compiler::CandidateSpace> space;
  std::unique_ptr<Workload> workload;
  std::unique_ptr<ReferenceCheck> reference;
  std::unique_ptr<LengthCheck> length;
  Ready own, fastest; ///< `fastest` has no subject while it is the compiler's own
  double launchSeconds = 0;
  bool isPrepared = false, hasNew = false, isComplete = false;
  TuneReport made;
};

} // namespace yaglom::runtime::tune
