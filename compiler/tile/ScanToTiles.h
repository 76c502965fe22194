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

/// The same for a function that phi-differentiate made:
///
///     func @backward(%rows, %keys, %position, %length, %begin, arguments ..., "grad.O": tensor<?x64xf32>,
///                    a gradient for each argument ..., rows between the loops: tensor<?x64xf32>, tensor<?xf32> ...)
///
/// It walks all rows whatever `begin` is. Rows between the loops are memory that the caller lends.
///
/// One that takes states has these operands last, for each of keptStates(): the states, tensor<?xFxexf32> ..., and memory
/// for those of one segment. With Keeps::Segments `begin` is the rows of a segment, a multiple of the chunk; there is a state
/// before each segment, and a single sweep from the last token to the first, without rows between loops.
void buildBackwardTiles(mlir::func::FuncOp function, const Schedule &schedule);

/// The rows between the loops, values of a function that phi-differentiate made, in the order of their operands.
llvm::SmallVector<mlir::Value> rowsBetweenLoops(mlir::func::FuncOp function);

/// One member of the state of a scan, as a forward launch keeps it.
struct KeptMember {
  int64_t offset; ///< among all members, in elements
  mlir::RankedTensorType type;
};

/// The states that a gradient reads when it takes states.
llvm::SmallVector<KeptMember> keptStates(mlir::func::FuncOp function);

} // namespace yaglom::compiler
