// One cluster as a loop nest over register tiles of rows x lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/Clusters.h"
#include "compiler/lower/Memory.h"
#include "compiler/targets/cpu/Lanes.h"
#include "compiler/targets/cpu/Machine.h"
#include "mlir/IR/IRMapping.h"

#include <functional>
#include <optional>

namespace yaglom::compiler::cpu {

/// Rows that the next turn of a loop will read.
struct Prefetch {
  mlir::Value base, stride; ///< !llvm.ptr, index: elements between rows
  mlir::Value first;        ///< index of the first row
  mlir::Type element;
  int64_t rows, width;
};

/// What a cluster needs to know of the values around it.
struct Surroundings {
  std::function<Place(mlir::Value)> place; ///< of a tensor in memory
  std::function<Place(mlir::Value)>
      lanePlace; ///< of a contraction's operand along the lanes: its entries there are neighbours
  std::function<std::optional<double>(mlir::Value)> splat; ///< of a tensor with one known entry
  mlir::IRMapping &scalars;                                ///< indices, conditions, numbers
  std::function<bool(mlir::Value)> isStored;               ///< whether the value is used outside of the cluster
  std::vector<Prefetch> prefetches;                        ///< what this cluster should fetch beside its work
};

class ClusterEmitter {
public:
  ClusterEmitter(const Cluster &cluster, mlir::OpBuilder &builder, mlir::Location loc, const Machine &machine,
                 Lanes &lanes, Surroundings &around);
  void emit();

private:
  /// A tile's value: a vector of (rows or 1) x (lanes or 1).
  using Tile = mlir::Value;
  struct Sum {                 ///< in progress
    mlir::linalg::ReduceOp op; ///< null for a contraction
    mlir::Value carried;
  };

  void chooseDimensions(Lanes &lanes);
  void chooseTile();

  void overOuter(int dim);
  void lanesThenRows();
  void rowsThenLanes();
  void overLaneBlocks(llvm::MutableArrayRef<Sum> sums, llvm::function_ref<void()> body);
  void overRowBlocks(llvm::MutableArrayRef<Sum> sums, llvm::function_ref<void()> body);
  void loop(int64_t begin, int64_t end, int64_t step, llvm::MutableArrayRef<Sum> sums,
            llvm::function_ref<void(Index)> body);
  void prefetch();
  /// Where the ops that follow come from.
  void locate(mlir::Operation *op);
  void tile(llvm::MutableArrayRef<Sum> sums);

  void emitContractions();
  void emitProducts(llvm::ArrayRef<mlir::linalg::ContractOp> group);
  mlir::Value multiplyAdd(mlir::linalg::ContractOp op, Index k, mlir::Value sum,
                          llvm::DenseMap<mlir::Value, mlir::Value> &vectors);
  Tile emitGeneric(mlir::linalg::GenericOp op);
  Tile emitScalarOp(mlir::Operation &op, llvm::DenseMap<mlir::Value, Tile> &values);
  Tile captured(mlir::Value value);
  Tile indexTile(unsigned dim);

  llvm::SmallVector<Sum> startSums(int64_t rows);
  void accumulate(Sum &sum);
  void finish(Sum &sum);
  mlir::Value neutral(mlir::linalg::ReduceOp op, llvm::ArrayRef<int64_t> shape);
  mlir::Value combine(mlir::linalg::ReduceOp op, mlir::Value x, mlir::Value y);

  Tile read(mlir::Value operand, mlir::AffineMap map);
  Tile readNew(mlir::Value operand, mlir::AffineMap map);
  mlir::Value readLanes(const Place &place, mlir::AffineMap map, llvm::ArrayRef<Index> indices);
  void write(mlir::Value value, Tile tile);
  void writeLanes(mlir::Value row, const Place &place, int axis, mlir::Value address);
  llvm::SmallVector<Index> indicesAt(mlir::AffineMap map, int64_t row, Index k);
  int64_t validLanes() const;
  Tile widen(Tile tile, int64_t rows, int64_t lanes);
  mlir::VectorType vectorType(int64_t rows, int64_t lanes, mlir::Type element);

  const Cluster &cluster;
  mlir::OpBuilder &b;
  mlir::Location loc;
  const Machine &machine;
  Surroundings &around;
  Memory memory;
  int laneDim = -1, rowDim = -1;           ///< of the iteration space; -1 when it has none
  int64_t R = 1, L = 1;                    ///< rows and lanes of a tile
  int64_t height = 1;                      ///< rows of the current tile: R, or what is left
  llvm::SmallVector<Index> at;             ///< where the current tile begins, one a dimension
  llvm::DenseMap<mlir::Value, Tile> tiles; ///< of values that this cluster makes
  llvm::DenseMap<std::pair<mlir::Value, mlir::AffineMap>, Tile> loaded; ///< of values that it has read
};

} // namespace yaglom::compiler::cpu
