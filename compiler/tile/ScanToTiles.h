// From the scan level to a tile program: chunk loops over tiles, the waist that every target shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace yaglom::compiler {

/// Replaces the one-row function `function` by its tile program of the same name:
///
///     func @forward(%rows: index, %keys: index, %position: index, %length: index,
///                   inputs: tensor<?x64xf32> ..., parameters: tensor<64x64xf32> ..., results: tensor<?x64xf32> ...)
///
/// It walks `rows` query rows and `keys` key rows in chunks of `schedule.chunk`. Static shapes everywhere; what the last
/// chunk lacks is 0 and masked by selection. No layout, no order, no register.
void buildTiles(mlir::func::FuncOp function, const Schedule &schedule);

} // namespace yaglom::compiler
