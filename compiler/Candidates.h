// Schedules of an attention that the tuner may measure, in the order in which it should.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "yaglom/compile.h"

#include <functional>
#include <vector>

namespace yaglom::compiler {

/// Knows of one attention and its target what orders candidates.
class CandidateSpace {
public:
  /// `isSplit`: a sequence is dealt to several threads. The Error is the compiler's.
  static Result<CandidateSpace> make(const Instance &instance, const CompileOptions &options, Pass pass, bool isSplit);

  /// Schedules that differ from `from` in one field, those that the target's cost model likes best first.
  std::vector<yaglom::Schedule> around(const yaglom::Schedule &from) const;

private:
  using Schedules = std::vector<yaglom::Schedule>;
  std::function<Schedules(const yaglom::Schedule &)> neighbours;
  std::function<double(const yaglom::Schedule &)> cost;
};

} // namespace yaglom::compiler
