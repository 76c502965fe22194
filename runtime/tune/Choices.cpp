// A table of buckets for each pass, filled by what is stored.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Choices.h"

#include "runtime/Compiled.h"
#include "runtime/Pool.h"
#include "runtime/cache/Settings.h"
#include "runtime/tune/Record.h"
#include "runtime/tune/Settings.h"
#include "runtime/tune/Tuner.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::runtime {
namespace {

std::size_t indexOf(Pass pass) { return static_cast<std::size_t>(pass); }

/// What launches of a bucket use. Tunes first when that is asked for and was never done. `forward`: of the gradient from a
/// residual.
Schedule scheduleFor(const Compiled &compiled, Pass pass, const Sizes &sizes, const Bucket &bucket, bool mayTune,
                     const Choice *forward) {
  const TuneMode mode = tune::currentMode();
  if (mode == TuneMode::Off)
    return {};
  if (const std::optional<tune::Record> record = tune::findRecord(tune::recordKey(compiled, pass, bucket)))
    return record->chosen;
  if (mode == TuneMode::Load || !mayTune)
    return {};
  const Result<TuneReport> report = tune::tuneLaunch(compiled, pass, sizes, forward);
  if (report)
    return report->fastest().schedule;
  cache::warn(fmt::format("'{}' was not tuned: {}", compiled.instance.attention->id.name, report.error().what()));
  return {};
}

} // namespace

Schedule withChunk(const Compiled &compiled, Schedule schedule, int64_t chunk) {
  const bool isOwn = compiled.options.schedule.isDefault() && compiled.program->chunk == chunk;
  schedule.chunk = isOwn ? 0 : chunk;
  return schedule;
}

int64_t workersOf(const Compiled &compiled) { return compiled.device ? compiled.device->workers() : defaultThreads(); }

const Choice &Choices::of(const Compiled &compiled, Pass pass, const Sizes &sizes) const {
  const Bucket bucket = compiled.isTunable() ? Bucket::of(sizes, workersOf(compiled)) : Bucket();
  if (generation.load(std::memory_order_relaxed) != tune::generation())
    forgetOld();
  const std::atomic<const Choice *> &slot = slots[indexOf(pass)][static_cast<std::size_t>(bucket.index())];
  if (const Choice *choice = slot.load(std::memory_order_acquire))
    return *choice;
  return lookUp(compiled, pass, sizes, bucket, true);
}

std::vector<const Choice *> Choices::upTo(const Compiled &compiled, Pass pass, const Sizes &sizes) const {
  std::vector<const Choice *> found;
  const auto add = [&](const Choice *choice) {
    found.erase(std::remove(found.begin(), found.end(), choice), found.end());
    found.push_back(choice);
  };
  const Choice &largest = of(compiled, pass, sizes);
  if (compiled.isTunable()) {
    const Bucket top = Bucket::of(sizes, workersOf(compiled));
    for (Bucket bucket; bucket.tokens <= top.tokens; ++bucket.tokens)
      for (bucket.load = Bucket::kLeastLoad; bucket.load <= top.load; ++bucket.load)
        add(&lookUp(compiled, pass, sizes, bucket, false));
  }
  add(&largest);
  return found;
}

/// After something was tuned or a setting changed: every bucket is looked up again.
void Choices::forgetOld() const {
  const std::lock_guard lock(mutex);
  const uint64_t now = tune::generation();
  if (generation.exchange(now) == now)
    return;
  for (Slots &ofPass : slots)
    for (std::atomic<const Choice *> &slot : ofPass)
      slot.store(nullptr, std::memory_order_release);
}

const Choice &Choices::lookUp(const Compiled &compiled, Pass pass, const Sizes &sizes, const Bucket &bucket,
                              bool mayTune) const {
  const Choice *forward = nullptr; // before the lock, which is for one pass at a time
  if (pass == Pass::BackwardFromResidual)
    forward = mayTune ? &of(compiled, Pass::Forward, sizes) : &lookUp(compiled, Pass::Forward, sizes, bucket, false);
  const std::lock_guard lock(mutex); // one thread tunes or compiles, others of this kernel wait
  std::atomic<const Choice *> &slot = slots[indexOf(pass)][static_cast<std::size_t>(bucket.index())];
  if (const Choice *choice = slot.load(std::memory_order_acquire))
    return *choice;
  Schedule schedule = compiled.options.schedule;
  if (compiled.isTunable())
    schedule = scheduleFor(compiled, pass, sizes, bucket, mayTune, forward);
  if (compiled.isTunable() && forward)
    schedule = withChunk(compiled, schedule, forward->forward->chunk);
  const Choice *choice = make(compiled, pass, schedule);
  // Tuning here has moved the generation on, for nothing that this kernel does not know.
  slot.store(choice, std::memory_order_release);
  return *choice;
}

const Choice *Choices::make(const Compiled &compiled, Pass pass, const Schedule &schedule) const {
  std::deque<Choice> &known = made[indexOf(pass)];
  for (const Choice &choice : known)
    if (choice.schedule == schedule)
      return &choice;
  const bool isOwn = schedule == compiled.options.schedule;
  const auto unused = [&](const Error &error) {
    cache::warn(fmt::format("tuned schedule '{}' is not used: {}", schedule.toText(), error.what()));
    return make(compiled, pass, compiled.options.schedule);
  };
  Choice choice{schedule, nullptr, nullptr};
  if (pass == Pass::Forward) {
    auto program = compiled.forwardBy(schedule);
    if (!program && !isOwn)
      return unused(program.error());
    choice.forward = std::move(program.value());
  } else {
    const bool isKept = pass == Pass::BackwardFromResidual;
    auto program = compiled.backwardBy(isKept ? compiled.program->keeps : compiler::Keeps::Nothing, schedule);
    if (!program && !isOwn)
      return unused(program.error());
    choice.backward = program.value();
  }
  return &known.emplace_back(std::move(choice));
}

} // namespace yaglom::runtime
