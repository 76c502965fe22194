// The search: from the fastest so far to those that differ from it in one field, by the order of the target's cost model.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Tuner.h"

#include "compiler/Artifact.h"
#include "runtime/Programs.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::runtime::tune {
namespace {

/// Tokens that the reference is asked about: more than the largest chunk and no multiple of any. It takes time by their square.
constexpr int64_t kReferenceTokens = 145, kEmulatedTokens = 37;
/// The share of the budget that the last comparison may take, and how many rounds it should have.
constexpr double kConfirmShare = 0.25;
constexpr std::size_t kConfirmRounds = 9;
constexpr double kCandidateSeconds = 1;

/// Sizes at which one head is checked.
Sizes oneHead(const Sizes &sizes, int64_t most) {
  return {1, 1, std::min(sizes.queryLength, most), std::min(sizes.keyLength, most)};
}

} // namespace

Tuner::Tuner(const Compiled &compiled, const Sizes &sizes, const TuneOptions &options, const Hooks &hooks,
             const Choice *forward)
    : compiled(compiled), sizes(sizes), options(options), hooks(hooks),
      forward(forward ? forward->forward : compiled.program),
      key(recordKey(compiled, options.pass, Bucket::of(sizes, workersOf(compiled)))), start(Clock::now()),
      end(start + toDuration(options.budgetSeconds)) {}

double Tuner::seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

compiler::Keeps Tuner::keeps() const {
  return options.pass == Pass::BackwardFromResidual ? compiled.program->keeps : compiler::Keeps::Nothing;
}

const TuneCandidate *Tuner::find(const Schedule &schedule) const {
  for (const TuneCandidate &candidate : made.candidates)
    if (candidate.schedule == schedule)
      return &candidate;
  return nullptr;
}

Clock::time_point Tuner::searchEnd() const {
  const double wanted = 2 * launchSeconds * static_cast<double>(kConfirmRounds);
  return end - toDuration(std::min(kConfirmShare * options.budgetSeconds, wanted));
}

/// What was measured before.
void Tuner::begin() {
  made.bucket = Bucket::of(sizes, workersOf(compiled)).text();
  made.candidates.push_back({.schedule = {}, .outcome = TuneOutcome::Measured});
  const std::optional<Record> record = options.again ? std::nullopt : findRecord(key);
  if (!record)
    return;
  for (const TuneCandidate &candidate : record->candidates)
    if (candidate.schedule.isDefault())
      made.candidates.front() = candidate;
    else
      made.candidates.push_back(candidate);
  fastest.schedule = record->chosen;
  if (const TuneCandidate *chosen = find(record->chosen))
    fastest.ratio = chosen->ratio;
  isComplete = record->complete;
}

/// The most promising candidate that was not tried.
std::optional<Schedule> Tuner::next() const {
  for (const Schedule &schedule : hooks.candidates ? *hooks.candidates : space->around(fastest.schedule))
    if (!find(schedule))
      return schedule;
  return std::nullopt;
}

void Tuner::search() {
  if (!hooks.candidates)
    space = compiler::CandidateSpace::make(compiled.instance, compiled.options, options.pass,
                                           sizes.batch * sizes.heads < workersOf(compiled))
                .value();
  report(nullptr);
  while (std::optional<Schedule> schedule = next()) {
    if (isOver())
      break;
    attempt(*schedule);
  }
  while (std::optional<Schedule> schedule = next())
    made.candidates.push_back({.schedule = *schedule});
  isComplete = std::none_of(made.candidates.begin(), made.candidates.end(), [](const TuneCandidate &candidate) {
    return candidate.outcome == TuneOutcome::NotReached;
  });
}

/// What the first candidate needs: launches of the compiler's own, which are right by the tests of the compiler, and of what an
/// earlier call has found. False when the time is over before that.
bool Tuner::prepare() {
  const Kernel kernel = kernelBy({}, "", compiled.device);
  const int64_t tokens = isGpuOfThisMachine(compiled) ? kEmulatedTokens : kReferenceTokens;
  reference = std::make_unique<ReferenceCheck>(compiled.instance, kernel, options.pass, oneHead(sizes, tokens));
  if (isOver())
    return false;
  length = std::make_unique<LengthCheck>(kernel, options.pass, oneHead(sizes, INT64_MAX), 1);
  if (isOver())
    return false;
  workload = std::make_unique<Workload>(kernel, sizes);
  own.subject = std::make_unique<Subject>(kernel, *workload, options.pass, options.threads);
  own.subject->launch();
  if (isOver())
    return false;
  const Clock::time_point before = Clock::now();
  own.subject->launch();
  launchSeconds = std::chrono::duration<double>(Clock::now() - before).count();
  if (!fastest.schedule.isDefault()) {
    fastest.artifact = build(fastest.schedule);
    fastest.subject = std::make_unique<Subject>(kernelBy(fastest.schedule, fastest.artifact, compiled.device),
                                                *workload, options.pass, options.threads);
    fastest.subject->launch();
  }
  isPrepared = true;
  return !isOver();
}

void Tuner::attempt(const Schedule &schedule) {
  if (!isPrepared && !prepare())
    return;
  Ready ready{.schedule = schedule, .artifact = {}, .subject = nullptr};
  TuneCandidate candidate = examine(schedule, ready);
  if (candidate.outcome == TuneOutcome::Measured)
    measure(candidate, ready);
  made.candidates.push_back(candidate);
  if (candidate.outcome == TuneOutcome::NotReached)
    return;
  hasNew = true;
  keep(false);
  report(&made.candidates.back());
}

/// Sets what the comparison says of `candidate`, whose rival has that ratio to the compiler's own.
static void note(TuneCandidate &candidate, const Comparison &seen, double ofRival) {
  const Middle times(seen.second);
  candidate.medianMs = times.median;
  candidate.spreadMs = times.spread;
  candidate.ratio = ofRival * seen.ratio();
  candidate.ratioSpread = ofRival * seen.ratioSpread();
  candidate.samples = static_cast<int64_t>(seen.rounds());
}

void Tuner::measure(TuneCandidate &candidate, Ready &ready) {
  Subject &rival = fastest.subject ? *fastest.subject : *own.subject;
  const Comparison seen =
      compare(rival, *ready.subject, {.deadline = searchEnd(), .cancel = options.cancel, .seconds = kCandidateSeconds});
  if (seen.rounds() < 3) { // says nothing
    candidate.outcome = TuneOutcome::NotReached;
    return;
  }
  note(candidate, seen, fastest.ratio);
  launchSeconds = std::max(launchSeconds, seen.secondsOfRound / 2); // the machine may have become busier
  TuneCandidate &base = made.candidates.front();
  if (!fastest.subject && base.samples < static_cast<int64_t>(seen.rounds())) {
    const Middle times(seen.first);
    base.medianMs = times.median;
    base.spreadMs = times.spread;
    base.samples = static_cast<int64_t>(seen.rounds());
  }
  if (!seen.isFaster())
    return;
  fastest = std::move(ready);
  fastest.ratio = candidate.ratio;
}

/// The fastest against the compiler's own, directly: what won several times by chance does not win here.
void Tuner::confirm() {
  if (!fastest.subject || isCancelled() || !hasNew)
    return;
  const Comparison seen = compare(*own.subject, *fastest.subject,
                                  {.deadline = end,
                                   .cancel = options.cancel,
                                   .seconds = kCandidateSeconds,
                                   .least = kConfirmRounds,
                                   .mayGiveUp = false});
  if (seen.rounds() < 3)
    return;
  auto candidate = std::find_if(made.candidates.begin(), made.candidates.end(),
                                [&](const TuneCandidate &known) { return known.schedule == fastest.schedule; });
  note(*candidate, seen, 1);
  const Middle times(seen.first);
  made.candidates.front().medianMs = times.median;
  made.candidates.front().spreadMs = times.spread;
  made.candidates.front().samples = static_cast<int64_t>(seen.rounds());
  if (seen.isFaster())
    return;
  made.message = fmt::format("'{}' won, but was not faster than the compiler's own schedule when both were compared "
                             "again: that stays",
                             fastest.schedule.toText());
  fastest = {};
}

void Tuner::keep(bool complete) {
  Record record{.chosen = fastest.schedule, .complete = complete, .candidates = {}};
  for (const TuneCandidate &candidate : made.candidates)
    if (candidate.outcome != TuneOutcome::NotReached)
      record.candidates.push_back(candidate);
  keepRecord(key, record);
}

void Tuner::report(const TuneCandidate *last) const {
  if (!options.progress)
    return;
  const auto done = static_cast<std::size_t>(
      std::count_if(made.candidates.begin(), made.candidates.end(),
                    [](const TuneCandidate &candidate) { return candidate.outcome != TuneOutcome::NotReached; }));
  options.progress({.seconds = seconds(),
                    .budgetSeconds = options.budgetSeconds,
                    .done = done,
                    .last = last,
                    .fastest = &fastest.schedule,
                    .fastestRatio = fastest.ratio});
}

void Tuner::finish() {
  const auto place = std::find_if(made.candidates.begin(), made.candidates.end(),
                                  [&](const TuneCandidate &known) { return known.schedule == fastest.schedule; });
  made.chosen = static_cast<std::size_t>(place - made.candidates.begin());
  const auto isUsable = [](const TuneCandidate &known) { return known.outcome == TuneOutcome::Measured; };
  const auto rejected =
      std::find_if(made.candidates.begin() + 1, made.candidates.end(), [&](const TuneCandidate &known) {
        return !isUsable(known) && known.outcome != TuneOutcome::NotReached;
      });
  if (rejected != made.candidates.end() && std::none_of(made.candidates.begin() + 1, made.candidates.end(), isUsable))
    made.message =
        fmt::format("every candidate was rejected, so the compiler's own schedule stays; the first, '{}', {}: {}",
                    rejected->schedule.toText(), toText(rejected->outcome), rejected->message);
  made.complete = isComplete;
  keep(isComplete);
  // The chosen program goes to the cache, where launches look for it.
  if (fastest.artifact.empty())
    return;
  const CompileOptions by = optionsBy(fastest.schedule);
  if (options.pass == Pass::Forward)
    obtain<compiler::Program>(programKey("forward", compiled.spec, compiled.instance, by), [&] {
      return compiler::fromArtifact<compiler::Program>(fastest.artifact);
    }).value();
  else
    obtain<compiler::BackwardProgram>(programKey(backwardKind(keeps()), compiled.spec, compiled.instance, by), [&] {
      return compiler::fromArtifact<compiler::BackwardProgram>(fastest.artifact);
    }).value();
}

TuneReport Tuner::run() {
  begin();
  search();
  confirm();
  finish();
  made.seconds = seconds();
  return std::move(made);
}

} // namespace yaglom::runtime::tune
