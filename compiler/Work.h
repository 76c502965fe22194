// How many multiply-adds an attention needs at least: what a share of peak is measured against (docs/performance.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Schedule.h"
#include "mlir/IR/BuiltinOps.h"

namespace yaglom::compiler {

/// Multiply-adds of contractions, no transcendental counted; the triangle of a chunk is exact.
struct Work {
  double perQuery = 0, perKey = 0;
  double perPair = 0; ///< of a quadratic attention, for each query and key that meet
};

/// Of `@forward` at the scan level.
Work countWork(mlir::ModuleOp module, const Schedule &schedule);

} // namespace yaglom::compiler
