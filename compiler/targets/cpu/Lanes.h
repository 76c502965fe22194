// Which axis of each tile runs along vector lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/DenseMap.h"

namespace yaglom::compiler::cpu {

/// Decides an axis for every tensor of a tile program, so that no contraction needs a packing copy: features have tokens
/// in the lanes (norms, exponents and row sums are vertical then), what a state is multiplied with has its columns there.
/// Values that pointwise ops, slices and loops connect share one choice.
class Lanes {
public:
  explicit Lanes(mlir::func::FuncOp function);

  /// The axis of `value` that lies along the lanes: its innermost axis in memory. 0 for a rank below 2.
  unsigned of(mlir::Value value);
  /// The axis of the result that a contraction computes along the lanes.
  unsigned ofContraction(mlir::linalg::ContractOp op);

private:
  mlir::Value find(mlir::Value value);
  void unite(mlir::Value x, mlir::Value y);
  void connect(mlir::Operation *op);
  void vote(mlir::linalg::ContractOp op);

  llvm::DenseMap<mlir::Value, mlir::Value> parent;
  llvm::DenseMap<mlir::Value, unsigned> axis; ///< decided, by representative
  llvm::DenseMap<mlir::Value, bool> inLoop;   ///< some member is computed in a loop, by representative
};

} // namespace yaglom::compiler::cpu
