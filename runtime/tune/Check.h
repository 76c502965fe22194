// Whether a candidate computes what it should: against the reference, and against the compiler's own schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Array.h"
#include "frontend/Instance.h"
#include "runtime/tune/Workload.h"
#include "yaglom/yaglom.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace yaglom::runtime::tune {

/// Changes what a launch left; of tests.
using Spoil = std::function<void(Parameters &results)>;

/// What the reference says of a few tokens: the output, or of each gradient its product with one random direction, which is one
/// run over dual numbers.
class ReferenceCheck {
public:
  /// `own` is the kernel by the compiler's own schedule: where the attention is so sensitive that this one has errors beyond the
  /// table, a candidate may have a few times as much. Throws Error.
  ReferenceCheck(const Instance &instance, const Kernel &own, Pass pass, const Sizes &sizes);

  /// What is wrong with `kernel`; nothing when it is right. Throws the Error of a launch.
  std::optional<std::string> check(const Kernel &kernel, const Spoil &spoil = {}) const;

private:
  struct Wanted {
    std::string tensor;
    Tensor values{};                ///< of the output
    reference::Array<double> along; ///< a direction of a gradient ...
    double derivative = 0;          ///< ... and the reference's derivative there
    double scale = 1;               ///< errors are shares of it
    double bound = 0;               ///< of the error
  };
  double errorOf(const Wanted &wanted, const Parameters &results) const;
  Parameters run(const Kernel &kernel, const Spoil &spoil) const;
  void addOutput(const Instance &instance);
  void addGradients(const Instance &instance, const Kernel &own, const Parameters &results);

  const Pass pass;
  const DType dtype;
  Workload workload;
  std::vector<Wanted> all;
};

/// The compiler's own results for one head at the tuned length.
class LengthCheck {
public:
  LengthCheck(const Kernel &own, Pass pass, const Sizes &sizes, int threads);

  std::optional<std::string> check(const Kernel &kernel, const Spoil &spoil = {}) const;

private:
  const Pass pass;
  const DType dtype;
  const int threads;
  Workload workload;
  Parameters expected;
};

} // namespace yaglom::runtime::tune
