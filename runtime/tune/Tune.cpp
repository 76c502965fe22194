// tune(), and launches that tune: what is asked is checked, then a Tuner runs.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Settings.h"
#include "runtime/tune/Tuner.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

namespace yaglom {
namespace runtime::tune {
namespace {

std::atomic<int64_t> launches = 0;

Error onlyHere(const std::string &target) {
  return Error(fmt::format("a kernel for '{}' cannot be tuned: times are measured on the machine itself, so the target "
                           "must be host or cuda",
                           target));
}

Result<void> checkOptions(const CompileOptions &options, const TuneOptions &tuning) {
  const std::pair<const char *, int64_t> sizes[] = {
      {"batch", tuning.batch}, {"heads", tuning.heads}, {"length", tuning.length}};
  for (const auto &[name, size] : sizes)
    if (size < 1)
      return Error(fmt::format("tune: expected 1 or more for '{}', found {}", name, size));
  if (tuning.threads < 0)
    return Error(fmt::format("tune: threads must be 0 or more, found {}", tuning.threads));
  for (const auto &[name, value] :
       {std::pair{"budgetSeconds", tuning.budgetSeconds}, std::pair{"candidateSeconds", tuning.candidateSeconds}})
    if (!(value > 0))
      return Error(fmt::format("tune: expected more than 0 for '{}', found {}", name, value));
  if (!options.schedule.isDefault())
    return Error(fmt::format("tune: the schedule is what is looked for, and must be left alone, found '{}'",
                             options.schedule.toText()));
  return {};
}

} // namespace

Result<TuneReport> tuneWith(const Spec &spec, const std::string &attention, const CompileOptions &options,
                            const TuneOptions &tuning, const Hooks &hooks) {
  if (Result<void> checked = checkOptions(options, tuning); !checked)
    return checked.error();
  const std::string &target = options.target.name();
  if (target != Target::host().name() && !cudaOrdinal(target))
    return onlyHere(target);
  const Result<std::shared_ptr<const Compiled>> compiled = compileShared(spec, attention, options);
  if (!compiled)
    return compiled.error();
  const bool isKept = tuning.pass == Pass::BackwardFromResidual;
  if (isKept && (*compiled)->program->keeps == compiler::Keeps::Nothing)
    return Error(fmt::format("tune: '{}' leaves no residual, so there is no gradient from one", attention));
  try {
    const Sizes sizes{tuning.batch, tuning.heads, tuning.length, tuning.length};
    const Choice *forward = isKept ? &(*compiled)->choose(Pass::Forward, sizes) : nullptr;
    return Tuner(**compiled, sizes, tuning, hooks, forward).run();
  } catch (const Error &error) {
    return error;
  }
}

Result<TuneReport> tuneLaunch(const Compiled &compiled, Pass pass, const Sizes &sizes, const Choice *forward) {
  ++launches;
  const std::string &target = compiled.options.target.name();
  if (compiled.device ? !isGpuOfThisMachine(compiled) : target != Target::host().name())
    return onlyHere(target);
  const TuneOptions options{.pass = pass, .budgetSeconds = launchBudget()};
  try {
    return Tuner(compiled, sizes, options, {}, forward).run();
  } catch (const Error &error) {
    return error;
  }
}

int64_t launchesTuned() { return launches; }

} // namespace runtime::tune

Result<TuneReport> tune(const Spec &spec, const std::string &attention, const CompileOptions &options,
                        const TuneOptions &tuning) {
  return runtime::tune::tuneWith(spec, attention, options, tuning, {});
}

} // namespace yaglom
