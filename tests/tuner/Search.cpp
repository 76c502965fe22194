// What is measured, kept and measured again: budget, interruption, records.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Record.h"
#include "runtime/tune/Settings.h"
#include "tests/tuner/Subject.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

using namespace yaglom;
using namespace yaglom::tests;
using runtime::tune::Hooks;
using runtime::tune::tuneWith;

namespace {

int64_t countNew(const TuneReport &report) {
  return std::count_if(report.candidates.begin() + 1, report.candidates.end(), [](const TuneCandidate &candidate) {
    return candidate.isNew && candidate.outcome != TuneOutcome::NotReached;
  });
}

int64_t countNotReached(const TuneReport &report) {
  return std::count_if(report.candidates.begin(), report.candidates.end(),
                       [](const TuneCandidate &candidate) { return candidate.outcome == TuneOutcome::NotReached; });
}

} // namespace

TEST_CASE("adding a candidate measures only that one") {
  const CacheOfTest folder;
  Hooks hooks;
  hooks.candidates = {schedule("chunk=16"), schedule("unroll=2")};
  const TuneReport first = tuneWith(smallSpec(), "a", smallOptions(), smallTuning(), hooks).value();
  CHECK(countNew(first) == 2);
  CHECK(first.complete);
  int asked = 0;
  TuneOptions again = smallTuning();
  again.progress = [&](const TuneProgress &now) { asked += now.last != nullptr; };
  CHECK(countNew(tuneWith(smallSpec(), "a", smallOptions(), again, hooks).value()) == 0);
  CHECK(asked == 0);
  hooks.candidates->push_back(schedule("prefetch=2"));
  const TuneReport third = tuneWith(smallSpec(), "a", smallOptions(), again, hooks).value();
  CHECK(countNew(third) == 1);
  CHECK(asked == 1);
  CHECK(find(third, "prefetch=2").isNew);
  CHECK(!find(third, "chunk=16").isNew);
  CHECK(find(third, "chunk=16").outcome == TuneOutcome::Measured);
  again.again = true;
  CHECK(countNew(tuneWith(smallSpec(), "a", smallOptions(), again, hooks).value()) == 3);
}

TEST_CASE("a budget is kept, and what is left is told") {
  const CacheOfTest folder;
  compile(smallSpec(), "a", smallOptions()).value(); // not what is measured here
  Hooks hooks;
  hooks.candidates = {schedule("chunk=16"), schedule("unroll=2"), schedule("prefetch=2"), schedule("pointwise=8")};
  hooks.inChild = [](const Schedule &) { std::this_thread::sleep_for(std::chrono::seconds(2)); };
  TuneOptions tuning = smallTuning();
  tuning.budgetSeconds = 3;
  const TuneReport report = tuneWith(smallSpec(), "a", smallOptions(), tuning, hooks).value();
  CHECK(report.seconds < tuning.budgetSeconds + 1);
  CHECK(countNotReached(report) >= 3);
  CHECK(!report.complete);
  for (const TuneCandidate &candidate : report.candidates)
    CHECK(candidate.outcome != TuneOutcome::Hung);
}

TEST_CASE("interrupting keeps what was measured") {
  const CacheOfTest folder;
  Hooks hooks;
  hooks.candidates = {schedule("chunk=16"), schedule("unroll=2"), schedule("prefetch=2")};
  std::atomic<bool> cancel = false;
  TuneOptions tuning = smallTuning();
  tuning.cancel = &cancel;
  tuning.progress = [&](const TuneProgress &now) { cancel = now.last != nullptr; };
  const TuneReport report = tuneWith(smallSpec(), "a", smallOptions(), tuning, hooks).value();
  CHECK(countNew(report) == 1);
  CHECK(countNotReached(report) == 2);
  tuning.cancel = nullptr;
  const TuneReport rest = tuneWith(smallSpec(), "a", smallOptions(), tuning, hooks).value();
  CHECK(countNew(rest) == 2);
  CHECK(rest.complete);
}

TEST_CASE("the target's own candidates begin with those that its cost model likes, none twice") {
  const Spec spec = smallSpec();
  const Instance instance = runtime::bindOptions(spec, "a", smallOptions()).value();
  for (const char *target : {"x86-64-v3", "x86-64-v4", "sm_80"}) {
    CompileOptions options = smallOptions();
    options.target = Target::parse(target).value();
    const auto space = compiler::CandidateSpace::make(instance, options, Pass::Forward, true).value();
    const std::vector<Schedule> around = space.around({});
    CHECK(around.size() >= 8);
    for (const Schedule &candidate : around) {
      CHECK(candidate.check());
      CHECK(!candidate.isDefault());
      CHECK(std::count(around.begin(), around.end(), candidate) == 1);
      // From each the way back is there.
      const std::vector<Schedule> back = space.around(candidate);
      CHECK(std::count(back.begin(), back.end(), Schedule()) == 1);
    }
  }
}

TEST_CASE("faster means beyond noise") {
  using runtime::tune::Comparison;
  CHECK(Comparison{{}, {}, {0.9, 0.91, 0.9, 0.89, 0.9}, 0}.isFaster());
  CHECK(!Comparison{{}, {}, {0.999, 0.998, 0.999, 0.998, 0.999}, 0}.isFaster()); // too little
  CHECK(!Comparison{{}, {}, {0.9, 1.2, 0.95, 1.1, 0.8}, 0}.isFaster());          // too unsure
  CHECK(!Comparison{{}, {}, {1.1, 1.1, 1.1}, 0}.isFaster());
  CHECK(!Comparison{}.isFaster());
}

TEST_CASE("sizes of a bucket are those up to a power of two, of tokens and of heads a worker") {
  using runtime::Bucket;
  const auto text = [](int64_t heads, int64_t tokens, int64_t workers) {
    return Bucket::of({1, heads, tokens, tokens}, workers).text();
  };
  CHECK(text(8, 4096, 2) == "up to 4096 tokens, 4 heads a worker");
  CHECK(text(8, 4097, 2) == "up to 8192 tokens, 4 heads a worker");
  CHECK(text(5, 1, 2) == "up to 1 tokens, 4 heads a worker");
  CHECK(text(1, 2, 2) == "up to 2 tokens, 1/2 heads a worker");
  CHECK(text(3, 2, 4) == "up to 2 tokens, 1 heads a worker");
  CHECK(text(1000, 2, 4) == "up to 2 tokens, 8 or more heads a worker");
  for (int64_t tokens : {0, 1, 1 << 20})
    for (int64_t heads : {0, 1, 1 << 20}) {
      const int index = Bucket::of({1, heads, tokens, tokens}, 16).index();
      CHECK(index >= 0);
      CHECK(index < Bucket::kCount);
    }
}

TEST_CASE("a record reads back the same, and any other text is refused") {
  using namespace runtime::tune;
  Record record{.chosen = schedule("chunk=16"), .complete = true, .candidates = {}};
  record.candidates.push_back({.schedule = schedule("chunk=16"),
                               .outcome = TuneOutcome::Measured,
                               .medianMs = 1.5,
                               .spreadMs = 0.25,
                               .ratio = 0.75,
                               .ratioSpread = 0.125,
                               .samples = 7});
  record.candidates.push_back({.schedule = schedule("unroll=2"), .outcome = TuneOutcome::Hung, .message = "too long"});
  const std::string json = toJson(record);
  const Record read = parseRecord(json).value();
  CHECK(toJson(read) == json);
  CHECK(!read.candidates[0].isNew);
  CHECK(read.find(schedule("unroll=2"))->message == "too long");
  for (std::size_t length = 0; length < json.size(); ++length)
    CHECK(!parseRecord(json.substr(0, length)));
  CHECK(!parseRecord("[]"));
  CHECK(!parseRecord(R"({"chosen": 1, "complete": true, "candidates": []})"));
  CHECK(!parseRecord(R"({"chosen": "chunk=99999", "complete": true, "candidates": []})"));
  CHECK(!parseRecord(
      R"({"chosen": "default", "complete": true, "candidates": [{"schedule": "default", "outcome": "x"}]})"));
}

TEST_CASE("YAGLOM_TUNE says whether launches use tuned schedules, unless the program does") {
  using runtime::tune::currentMode;
  std::vector<std::string> warnings;
  onWarning([&](const std::string &text) { warnings.push_back(text); });
  setTuning({});
  const auto modeOf = [](const char *value) {
    setenv("YAGLOM_TUNE", value, 1);
    return currentMode();
  };
  CHECK(modeOf("off") == TuneMode::Off);
  CHECK(modeOf("load") == TuneMode::Load);
  CHECK(modeOf("on") == TuneMode::On);
  CHECK(warnings.empty());
  CHECK(modeOf("ON") == TuneMode::Load);
  CHECK(warnings == std::vector<std::string>{"YAGLOM_TUNE: expected off, load or on, found 'ON'; it counts as load"});
  setTuning({.mode = TuneMode::Off});
  CHECK(currentMode() == TuneMode::Off);
  unsetenv("YAGLOM_TUNE");
  setTuning({});
  CHECK(currentMode() == TuneMode::Load);
  onWarning(nullptr);
}
