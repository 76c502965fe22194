// From the scan level to a tile program: chunk loops over tiles, the waist that every target shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace yaglom::compiler {

/// Replaces the one-row function `function` by its tile program of the same name:
///
///     func @forward(%rows: index, %keys: index, %position: index, %length: index, %begin: index,
///                   inputs: tensor<?x64xf32> ..., parameters: tensor<64x64xf32> ..., results: tensor<?x64xf32> ...)
///
/// It walks query rows `begin` .. rows - 1 and `keys` key rows in chunks of `schedule.chunk`. Static shapes everywhere; what
/// the last chunk lacks is 0 and masked by selection. No layout, no order, no register.
///
/// When the function holds scans, `@advance` with the same arguments is made too: it walks keys `begin` .. keys - 1 and
/// computes nothing but the state, bit for bit as `@forward` does. Both take the state of the keys before `begin` from the
/// caller and hand theirs back, so that the parts of one sequence can be computed by several threads.
void buildTiles(mlir::func::FuncOp function, const Schedule &schedule);

} // namespace yaglom::compiler
