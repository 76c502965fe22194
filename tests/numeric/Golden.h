// The golden cases of tests/golden: inputs, and what an independent quadratic program computed from the formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Array.h"
#include "frontend/Instance.h"
#include "yaglom/spec.h"

#include <memory>
#include <string>
#include <vector>

namespace yaglom::tests {

/// One file of tests/golden.
struct Golden {
  std::string file; ///< its name without folder and extension
  std::shared_ptr<const Spec> spec;
  Instance instance; ///< dims bound by the file's metadata and the widths of its tensors
  int64_t heads = 0;
  reference::Tensors<double> given;    ///< inputs, parameters, draws, noise
  reference::Array<double> gradient;   ///< grad.O
  reference::Tensors<double> expected; ///< by what stands behind "expect.": "O", "grad.Q", "draw.f.W", "loss.r", ...
};

/// Names of all golden files, sorted.
std::vector<std::string> goldenFiles();
/// Reads one; throws Error.
Golden loadGolden(const std::string &file);

/// Root of the mean square.
double rms(const std::vector<double> &values);
/// rms(found - expected) / max(rms(expected), floor).
double relativeError(const std::vector<double> &found, const std::vector<double> &expected, double floor = 0);

} // namespace yaglom::tests
