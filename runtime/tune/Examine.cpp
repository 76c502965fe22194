// One candidate: built and checked in a child process, then brought here.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Tuner.h"

#include "compiler/Artifact.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::runtime::tune {

bool isGpuOfThisMachine(const Compiled &compiled) {
  return compiled.device && compiled.device->ordinal() != TensorRef::kHost;
}

CompileOptions Tuner::optionsBy(const Schedule &schedule) const {
  CompileOptions by = compiled.options;
  by.schedule = schedule;
  if (options.pass == Pass::BackwardFromResidual)
    by.schedule = withChunk(compiled, schedule, forward->chunk);
  return by;
}

/// The program of a candidate, as bytes.
std::string Tuner::build(const Schedule &schedule) const {
  const CompileOptions by = optionsBy(schedule);
  if (options.pass == Pass::Forward)
    return compiler::toArtifact(compiler::build(compiled.instance, by).value());
  return compiler::toArtifact(compiler::buildBackward(compiled.instance, by, keeps()).value());
}

/// A kernel whose pass is that program, whatever is tuned; without an artifact it has the compiler's own.
Kernel Tuner::kernelBy(const Schedule &schedule, const std::string &artifact,
                       const std::shared_ptr<GpuDevice> &device) const {
  std::shared_ptr<const compiler::Program> program = forward;
  Preset preset{.isPinned = true, .keeps = keeps(), .backward = nullptr};
  if (!artifact.empty() && options.pass == Pass::Forward)
    program = compiler::load(compiler::fromArtifact<compiler::Program>(artifact).value()).value();
  else if (!artifact.empty())
    preset.backward = compiler::load(compiler::fromArtifact<compiler::BackwardProgram>(artifact).value()).value();
  return Kernel(std::make_shared<const Kernel::Impl>(Kernel::Impl{
      makeCompiled(compiled.spec, compiled.instance, optionsBy(schedule), program, device, preset).value(), 0}));
}

/// In the child: builds the candidate, runs it, and returns its artifact when its numbers are right. A line of text in front says
/// so: "right", or what is wrong.
std::string Tuner::checkInChild(const Schedule &schedule) const {
  if (hooks.inChild)
    hooks.inChild(schedule);
  const std::string artifact = build(schedule);
  const Spoil spoil = [&](Parameters &results) {
    if (hooks.spoil)
      hooks.spoil(schedule, results);
  };
  // The driver of a GPU does not survive a fork; the emulator runs the same code, and finds more.
  const bool isGpu = isGpuOfThisMachine(compiled);
  const Kernel kernel =
      kernelBy(schedule, artifact, isGpu ? emulatedDevice(compiled.device->architecture()) : compiled.device);
  std::optional<std::string> wrong = reference->check(kernel, spoil);
  if (!wrong && !isGpu)
    wrong = length->check(kernel, spoil);
  return wrong ? *wrong + "\n" : "right\n" + artifact;
}

/// Measured stands for: nothing speaks against it, and `ready` can be launched.
TuneCandidate Tuner::examine(const Schedule &schedule, Ready &ready) {
  TuneCandidate candidate{.schedule = schedule};
  const Clock::time_point limit = Clock::now() + toDuration(options.candidateSeconds);
  const Watched watched =
      runWatched([&] { return checkInChild(schedule); }, std::min(limit, searchEnd()), options.cancel);
  const auto reject = [&](TuneOutcome outcome, const std::string &message) {
    candidate.outcome = outcome;
    candidate.message = message;
    return candidate;
  };
  switch (watched.end) {
  case Watched::End::Cancelled:
    return candidate;
  case Watched::End::Late:
    if (limit > searchEnd())
      return candidate;
    return reject(TuneOutcome::Hung,
                  fmt::format("it was not compiled and checked within {:g} s", options.candidateSeconds));
  case Watched::End::Failed:
    return reject(TuneOutcome::Failed, watched.text);
  case Watched::End::Done:
    break;
  }
  const std::size_t line = watched.text.find('\n');
  if (watched.text.compare(0, line, "right") != 0)
    return reject(TuneOutcome::Wrong, watched.text.substr(0, line));
  try {
    ready.artifact = watched.text.substr(line + 1);
    const Kernel kernel = kernelBy(schedule, ready.artifact, compiled.device);
    if (isGpuOfThisMachine(compiled))
      if (const std::optional<std::string> wrong = length->check(kernel))
        return reject(TuneOutcome::Wrong, *wrong);
    ready.subject = std::make_unique<Subject>(kernel, *workload, options.pass, options.threads);
    ready.subject->launch();
  } catch (const Error &error) {
    return reject(TuneOutcome::Failed, error.what());
  }
  candidate.outcome = TuneOutcome::Measured;
  return candidate;
}

} // namespace yaglom::runtime::tune
