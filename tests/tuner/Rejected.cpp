// Candidates that crash, hang, or compute wrong numbers do no harm, and are told.
// SPDX-License-Identifier: Apache-2.0
#include "tests/tuner/Subject.h"

#include <chrono>
#include <cstdlib>
#include <thread>

using namespace yaglom;
using namespace yaglom::tests;
using runtime::tune::Hooks;
using runtime::tune::tuneWith;

namespace {

void crash(const Schedule &) { std::abort(); }
void hang(const Schedule &) {
  for (;;)
    std::this_thread::sleep_for(std::chrono::seconds(1));
}

void spoil(const Schedule &, Parameters &results) {
  for (const auto &entry : results) {
    Tensor changed = entry.tensor;
    changed.set(0, changed.at(0) + 0.01);
    results.set(entry.name, changed);
  }
}

} // namespace

TEST_CASE("a candidate that crashes, hangs, does not compile or is wrong is rejected and told") {
  const CacheOfTest folder;
  Hooks hooks;
  hooks.candidates = {schedule("chunk=64"), schedule("unroll=2"), schedule("prefetch=2"), schedule("pointwise=8"),
                      schedule("chunk=16")};
  hooks.inChild = [](const Schedule &candidate) {
    if (candidate.chunk == 64)
      crash(candidate);
    if (candidate.unroll == 2)
      hang(candidate);
    if (candidate.pointwise == 8)
      throw Error("no code for this");
  };
  hooks.spoil = [](const Schedule &candidate, Parameters &results) {
    if (candidate.prefetch == 2)
      spoil(candidate, results);
  };
  TuneOptions tuning = smallTuning();
  tuning.candidateSeconds = 4;
  const TuneReport report = tuneWith(smallSpec(), "a", smallOptions(), tuning, hooks).value();
  CHECK(find(report, "chunk=64").outcome == TuneOutcome::Failed);
  CHECK(find(report, "chunk=64").message == "its process ended by signal 6 (Aborted)");
  CHECK(find(report, "unroll=2").outcome == TuneOutcome::Hung);
  CHECK(find(report, "unroll=2").message == "it was not compiled and checked within 4 s");
  CHECK(find(report, "pointwise=8").outcome == TuneOutcome::Failed);
  CHECK(find(report, "pointwise=8").message == "no code for this");
  CHECK(find(report, "prefetch=2").outcome == TuneOutcome::Wrong);
  CHECK(find(report, "prefetch=2").message.starts_with("'O' differs from the reference's by "));
  CHECK(find(report, "chunk=16").outcome == TuneOutcome::Measured);
  CHECK(find(report, "chunk=16").samples >= 3);
  CHECK(report.complete);
}

TEST_CASE("a wrong gradient is rejected") {
  const CacheOfTest folder;
  Hooks hooks;
  hooks.candidates = {schedule("unroll=2"), schedule("chunk=16")};
  hooks.spoil = [](const Schedule &candidate, Parameters &results) {
    if (candidate.unroll == 2)
      spoil(candidate, results);
  };
  for (const Pass pass : {Pass::Backward, Pass::BackwardFromResidual}) {
    const TuneReport report = tuneWith(smallSpec(), "a", smallOptions(), smallTuning(pass), hooks).value();
    CHECK(find(report, "unroll=2").outcome == TuneOutcome::Wrong);
    CHECK(find(report, "chunk=16").outcome == TuneOutcome::Measured);
  }
}

TEST_CASE("when every candidate is rejected the compiler's own schedule stays, and a message says so") {
  const CacheOfTest folder;
  Hooks hooks;
  hooks.candidates = {schedule("chunk=16"), schedule("unroll=2")};
  hooks.spoil = spoil;
  const TuneReport report = tuneWith(smallSpec(), "a", smallOptions(), smallTuning(), hooks).value();
  CHECK(report.chosen == 0);
  CHECK(report.fastest().schedule.isDefault());
  CHECK(report.message.starts_with("every candidate was rejected, so the compiler's own schedule stays; the first, "
                                   "'chunk=16', wrong: 'O' differs from"));
  const Kernel kernel = compile(smallSpec(), "a", smallOptions()).value();
  Tensor q(DType::f32, {1, 1, 10, 8}), o(DType::f32, {1, 1, 10, 8});
  CHECK_NOTHROW(kernel.forward({q.ref(), q.ref(), q.ref()}, kernel.initialParameters(1), o));
}

TEST_CASE("mistakes in what is asked of the tuner are told") {
  const auto errorOf = [](const CompileOptions &options, const TuneOptions &tuning) -> std::string {
    const Result<TuneReport> report = tune(smallSpec(), "a", options, tuning);
    return report ? "" : report.error().what();
  };
  CHECK(errorOf({.schedule = {.chunk = 16}}, smallTuning()) ==
        "tune: the schedule is what is looked for, and must be left alone, found 'chunk=16'");
  TuneOptions none = smallTuning();
  none.budgetSeconds = 0;
  CHECK(errorOf({}, none) == "tune: expected more than 0 for 'budgetSeconds', found 0");
  none = smallTuning();
  none.length = 0;
  CHECK(errorOf({}, none) == "tune: expected 1 or more for 'length', found 0");
  CHECK(errorOf({.target = Target::parse("emulated").value()}, smallTuning()) ==
        "a kernel for 'emulated' cannot be tuned: times are measured on the machine itself, so the target must be host "
        "or "
        "cuda");
  const Result<TuneReport> softmax = tune(Spec::parse("attention s(Q; K, V) = softmax_attention(Q, K, V)").value(), "s",
                                          {}, smallTuning(Pass::BackwardFromResidual));
  CHECK(softmax.error().what() == std::string("tune: 's' leaves no residual, so there is no gradient from one"));
}
