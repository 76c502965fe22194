// Lifts the row-level values of a formula to tiles of a chunk: [shape] becomes [chunk, shape].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/formula/Sides.h"
#include "compiler/tile/TileOps.h"
#include "dialect/Phi.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>

namespace yaglom::compiler {

/// Tiles of the values that no token changes: computed once, before the chunk loop.
struct Prologue {
  explicit Prologue(mlir::MLIRContext *context) : builder(context) {}
  mlir::OpBuilder builder; ///< where they are computed
  llvm::DenseMap<mlir::Value, mlir::Value> tiles;
  mlir::Value length; ///< `len`, an index
  Sides sides;
};

/// The rows of one side in one chunk.
class Rows {
public:
  /// `first` is the number of the chunk's first row, `valid` how many there are, `position` the `pos` of row 0.
  Rows(Prologue &prologue, mlir::OpBuilder &body, int64_t chunk, mlir::Value first, mlir::Value valid,
       mlir::Value position)
      : chunk(chunk), first(first), valid(valid), prologue(prologue), b(body), position(position) {}

  /// The tile of a row value: [chunk, shape] when it has a side, [shape] when not.
  mlir::Value tile(mlir::Value row);
  /// The tile of a row value, repeated for every token when it has no side: always [chunk, shape].
  mlir::Value spread(mlir::Value row);
  /// The same as tile(), with the axes that its entries run along in an iteration space [token, shape...].
  tile::Operand operand(mlir::Value row, unsigned rank);
  /// This chunk's part of a sum over tokens.
  mlir::Value tokenSum(phi::TokenSumOp op);
  /// States the tile of a value that is not a formula of rows: the result of an attention.
  void set(mlir::Value row, mlir::Value tile) { tiles[row] = tile; }
  /// Rows that count: 0 where they lie past the end of the sequence, or where `mask` is 0.
  mlir::Value masked(mlir::Value x);
  bool perToken(mlir::Value row) { return prologue.sides.perToken(row); }
  /// What to call on an attention op that has no tile yet. With several results it states the tiles of all by set().
  std::function<mlir::Value(mlir::Operation *)> lowerAttention;

  const int64_t chunk;
  const mlir::Value first, valid;
  mlir::Value mask; ///< [chunk] or null: of keys that every attention leaves out, where it is 0

private:
  mlir::Value build(mlir::OpBuilder &at, mlir::Operation *op);
  mlir::Value load(mlir::BlockArgument argument);
  mlir::Value pointwise(mlir::OpBuilder &at, phi::PointwiseOpInterface op);
  mlir::Value derivative(mlir::OpBuilder &at, phi::DerivativeOp op);
  mlir::Value matVec(mlir::OpBuilder &at, phi::MatVecOp op);
  mlir::Value matVecTransposed(mlir::OpBuilder &at, phi::MatVecTransposedOp op);
  mlir::Value matrix(mlir::OpBuilder &at, phi::MatrixOp op);
  mlir::Value sumTo(mlir::OpBuilder &at, phi::SumToOp op);
  mlir::Value firstMax(mlir::OpBuilder &at, phi::FirstMaxOp op);
  mlir::Value outerProducts(mlir::OpBuilder &at, mlir::Value x, mlir::Value y, mlir::Location loc);
  mlir::Value norm(mlir::OpBuilder &at, mlir::Value x, mlir::Location loc);
  mlir::Value unit(mlir::OpBuilder &at, phi::UnitOp op);
  mlir::Value stack(mlir::OpBuilder &at, phi::StackOp op);
  mlir::Value slice(mlir::OpBuilder &at, phi::SliceOp op);
  mlir::Value outer(mlir::OpBuilder &at, phi::OuterOp op);
  mlir::Value positions(mlir::OpBuilder &at, phi::PositionOp op);
  mlir::Value lengths(mlir::OpBuilder &at, phi::LengthOp op);
  llvm::SmallVector<int64_t> shape(mlir::Value row);

  Prologue &prologue;
  mlir::OpBuilder &b;
  const mlir::Value position;
  llvm::DenseMap<mlir::Value, mlir::Value> tiles;
};

} // namespace yaglom::compiler
