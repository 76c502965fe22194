// Groups the tile ops of a block into clusters: one loop nest each, everything in between in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace yaglom::compiler {

/// Ops that share an iteration space: contractions into one register tile, then pointwise ops on it, then reductions
/// along one axis.
struct Cluster {
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<mlir::Operation *> ops; ///< in program order
  int reduced = -1;                         ///< the axis that its reductions sum along, or -1

  bool contains(mlir::Operation *op) const { return llvm::is_contained(ops, op); }
  /// Whether something outside of the cluster reads `value`, one of its results.
  bool isStored(mlir::Value value) const {
    return llvm::any_of(value.getUsers(), [&](mlir::Operation *user) { return !contains(user); });
  }
  llvm::SmallVector<mlir::linalg::ContractOp> contractions() const;
};

/// One step of a block: a cluster, or any other op that does something.
struct Item {
  mlir::Operation *op = nullptr;
  Cluster cluster;
  bool isCluster() const { return !op; }
};

/// The steps of a block, and which step makes each value.
class Clusters {
public:
  /// Without `sumsProducts` a cluster has contractions or reductions, not both.
  explicit Clusters(mlir::Block &block, bool sumsProducts = true);

  std::vector<Item> items;
  /// The step after which `value` exists; -1 when it exists before the block begins.
  int indexOf(mlir::Value value) const;
  /// The step that `user`, an op of the block or nested in one, belongs to.
  int indexOfUser(mlir::Operation *user) const;

private:
  void add(mlir::Operation *op);
  void addToCluster(mlir::Operation *op);
  bool joins(mlir::Operation *op, int index) const;
  int sibling(mlir::linalg::ContractOp op, int after) const;
  void put(mlir::Operation *op, int index);

  mlir::Block &block;
  const bool sumsProducts;
  llvm::DenseMap<mlir::Value, int> made;
  llvm::DenseMap<mlir::Operation *, int> step;
};

/// Extents of an op's iteration space without what a contraction sums over.
llvm::SmallVector<int64_t> extentsOf(mlir::Operation *op);
/// The value that `op` contracts onto, or null when it starts from zeros.
mlir::Value accumulatorOf(mlir::linalg::ContractOp op);

} // namespace yaglom::compiler
