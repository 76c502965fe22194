// A small attention to tune, and a cache folder of the test's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tune/Tuner.h"
#include "tests/Folder.h"
#include "tests/unit/Catch.h"
#include "yaglom/yaglom.h"

#include <string>
#include <vector>

namespace yaglom::tests {

/// While it lives the process has an empty cache folder, and tuned schedules are used as they are by default.
class CacheOfTest : public Folder {
public:
  CacheOfTest() {
    setCache({.folder = path});
    setTuning({.mode = TuneMode::Load});
  }
  ~CacheOfTest() { setCache({.folder = ""}); }
};

inline Spec smallSpec() {
  return Spec::parse(
             "attention a(Q; K, V) { param gain: [] = 2 let o = linear(exp(Q), exp(K), V) with causal, normalize "
             "return gain * o }")
      .value();
}

inline CompileOptions smallOptions() { return {.headDim = 8, .valueDim = 8}; }

/// Of the small attention: 1 head of 100 tokens, with a budget that is not felt.
inline TuneOptions smallTuning(Pass pass = Pass::Forward) {
  return {.pass = pass, .batch = 1, .heads = 1, .length = 100, .budgetSeconds = 60, .threads = 1};
}

inline const TuneCandidate &find(const TuneReport &report, const std::string &schedule) {
  for (const TuneCandidate &candidate : report.candidates)
    if (candidate.schedule.toText() == schedule)
      return candidate;
  FAIL("no candidate " << schedule);
  return report.candidates.front();
}

inline Schedule schedule(const std::string &text) { return Schedule::parse(text).value(); }

} // namespace yaglom::tests
