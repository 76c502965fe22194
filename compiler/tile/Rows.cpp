// One tile op for each row op; a value without a side is built in the prologue, once.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/Rows.h"

#include "dialect/Scalar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace yaglom::compiler {

using phi::Scalar;
using tile::Axes;
using tile::Operand;

static llvm::ArrayRef<int64_t> rowShape(Value row) { return cast<RankedTensorType>(row.getType()).getShape(); }

/// The shape of the row's tile.
llvm::SmallVector<int64_t> Rows::shape(Value row) {
  llvm::SmallVector<int64_t> shape;
  if (perToken(row))
    shape.push_back(chunk);
  llvm::append_range(shape, rowShape(row));
  return shape;
}

Operand Rows::operand(Value row, unsigned rank) {
  // Axes align at the end: [d] runs along the last axis of [n, d] (T3).
  Axes axes;
  unsigned tokens = rank - rowShape(row).size();
  if (perToken(row))
    axes.push_back(0);
  for (unsigned i = tokens; i < rank; ++i)
    axes.push_back(i);
  return {tile(row), axes};
}

Value Rows::tile(Value row) {
  bool each = perToken(row);
  auto &known = each ? tiles : prologue.tiles;
  if (auto it = known.find(row); it != known.end())
    return it->second;
  Value value;
  if (Operation *op = row.getDefiningOp(); op && op->getNumResults() > 1) {
    lowerAttention(op); // states all its results
    return tiles.lookup(row);
  }
  if (auto argument = dyn_cast<BlockArgument>(row))
    value = load(argument);
  else
    value = build(each ? b : prologue.builder, row.getDefiningOp());
  return (each ? tiles : prologue.tiles)[row] = value;
}

Value Rows::spread(Value row) {
  if (perToken(row))
    return tile(row);
  llvm::SmallVector<int64_t> full{chunk};
  llvm::append_range(full, rowShape(row));
  // One number in every entry takes part in formulas as a constant.
  if (auto constant = row.getDefiningOp<arith::ConstantOp>())
    if (auto attr = cast<DenseElementsAttr>(constant.getValue()); attr.isSplat())
      return tile::filled(b, row.getLoc(), full, tile::elementOf(row), attr.getSplatValue<APFloat>().convertToDouble());
  return tile::map(b, row.getLoc(), full, {operand(row, full.size())},
                   [](llvm::ArrayRef<phi::Scalar> e) { return e[0]; });
}

Value Rows::load(BlockArgument argument) {
  // Arguments of the formula are mapped to the tile function's own when the prologue is made.
  Value source = prologue.tiles.lookup(argument);
  auto type = RankedTensorType::get(shape(argument), tile::elementOf(source));
  return phi::LoadRowsOp::create(b, argument.getLoc(), type, source, first, valid);
}

Value Rows::build(OpBuilder &at, Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](phi::PointwiseOpInterface o) { return pointwise(at, o); })
      .Case([&](phi::DerivativeOp o) { return derivative(at, o); })
      .Case([&](phi::MatVecOp o) { return matVec(at, o); })
      .Case([&](phi::MatVecTransposedOp o) { return matVecTransposed(at, o); })
      .Case([&](phi::OuterMatrixOp o) { return outerProducts(at, o.getX(), o.getY(), o.getLoc()); })
      .Case([&](phi::MatrixOp o) { return matrix(at, o); })
      .Case([&](phi::SumToOp o) { return sumTo(at, o); })
      .Case([&](phi::FirstMaxOp o) { return firstMax(at, o); })
      .Case([&](phi::StackOp o) { return stack(at, o); })
      .Case([&](phi::SliceOp o) { return slice(at, o); })
      .Case([&](phi::OuterOp o) { return outer(at, o); })
      .Case([&](phi::UnitOp o) { return unit(at, o); })
      .Case([&](phi::PositionOp o) { return positions(at, o); })
      .Case([&](phi::LengthOp o) { return lengths(at, o); })
      .Case([&](phi::NormOp o) {
        Value squares = norm(at, o.getX(), o.getLoc());
        unsigned rank = tile::shapeOf(squares).size();
        return tile::pointwise(
            at, o.getLoc(), tile::shapeOf(squares), {{squares, rank ? Axes{0} : Axes{}}},
            [](OpBuilder &in, Location loc, ValueRange v) -> Value { return sqrt(phi::Scalar(in, loc, v[0])); });
      })
      .Case([&](phi::SumOp o) {
        Value x = tile(o.getX());
        return tile::reduce(at, o.getLoc(), x, tile::shapeOf(x).size() - 1, tile::Reduction::Sum);
      })
      .Case([&](phi::RowMaxOp o) {
        Value x = tile(o.getX());
        return tile::reduce(at, o.getLoc(), x, tile::shapeOf(x).size() - 1, tile::Reduction::Max);
      })
      .Case([&](arith::ConstantOp o) {
        auto attr = cast<DenseElementsAttr>(o.getValue());
        double x = attr.getSplatValue<APFloat>().convertToDouble();
        return tile::filled(at, o.getLoc(), rowShape(o), tile::elementOf(o), x);
      })
      .Default([&](Operation *o) { return lowerAttention(o); });
}

Value Rows::pointwise(OpBuilder &at, phi::PointwiseOpInterface op) {
  Value result = op->getResult(0);
  llvm::SmallVector<int64_t> extents = shape(result);
  llvm::SmallVector<Operand> operands;
  for (Value row : op->getOperands())
    operands.push_back(operand(row, extents.size()));
  return tile::pointwise(at, op.getLoc(), extents, operands,
                         [&](OpBuilder &in, Location loc, ValueRange v) { return op.lower(in, loc, v); });
}

Value Rows::derivative(OpBuilder &at, phi::DerivativeOp op) {
  llvm::SmallVector<int64_t> extents = shape(op.getResult());
  llvm::SmallVector<Operand> operands;
  for (Value row : op.getOperands())
    operands.push_back(operand(row, extents.size()));
  return tile::pointwise(at, op.getLoc(), extents, operands,
                         [&](OpBuilder &in, Location loc, ValueRange v) { return op.lower(in, loc, v); });
}

Value Rows::matVecTransposed(OpBuilder &at, phi::MatVecTransposedOp op) {
  Location loc = op.getLoc();
  bool matrixPerToken = perToken(op.getMatrix()), vectorPerToken = perToken(op.getVector());
  if (vectorPerToken && !matrixPerToken)
    return tile::contract(at, loc, {tile(op.getVector()), {0, 2}}, {tile(op.getMatrix()), {2, 1}}, {0, 1});
  llvm::SmallVector<int64_t> extents = shape(op.getMatrix());
  Axes along = vectorPerToken ? Axes{0, 1} : matrixPerToken ? Axes{1} : Axes{0};
  Value products = tile::pointwise(
      at, loc, extents, {operand(op.getMatrix(), extents.size()), {tile(op.getVector()), along}},
      [](OpBuilder &in, Location l, ValueRange v) -> Value { return arith::MulFOp::create(in, l, v[0], v[1]); });
  return tile::reduce(at, loc, products, matrixPerToken ? 1 : 0, tile::Reduction::Sum);
}

/// A vector's entries in rows of a matrix.
Value Rows::matrix(OpBuilder &at, phi::MatrixOp op) {
  llvm::SmallVector<int64_t> extents = shape(op.getResult());
  llvm::SmallVector<ReassociationIndices> groups;
  int64_t rank = extents.size();
  if (rank == 3)
    groups.push_back({0});
  groups.push_back({rank - 2, rank - 1});
  auto type = RankedTensorType::get(extents, tile::elementOf(op.getResult()));
  return tensor::ExpandShapeOp::create(at, op.getLoc(), type, tile(op.getX()), groups);
}

Value Rows::sumTo(OpBuilder &at, phi::SumToOp op) {
  Value x = tile(op.getX());
  size_t first = perToken(op.getX()), left = rowShape(op.getResult()).size();
  while (tile::shapeOf(x).size() > first + left)
    x = tile::reduce(at, op.getLoc(), x, first, tile::Reduction::Sum);
  return x;
}

/// The first of several largest entries: the one with the least number among those that equal the maximum.
Value Rows::firstMax(OpBuilder &at, phi::FirstMaxOp op) {
  Location loc = op.getLoc();
  Value x = tile(op.getX());
  llvm::SmallVector<int64_t> extents(tile::shapeOf(x));
  unsigned last = extents.size() - 1;
  Axes all = last ? Axes{0, 1} : Axes{0}, rows = last ? Axes{0} : Axes{};
  auto minusNumber = [&](OpBuilder &in, Location l, Type element) -> Scalar {
    Value i = arith::IndexCastOp::create(in, l, in.getI32Type(), linalg::IndexOp::create(in, l, last));
    return -Scalar(in, l, arith::SIToFPOp::create(in, l, element, i));
  };
  Value most = tile::reduce(at, loc, x, last, tile::Reduction::Max);
  Value numbers = tile::pointwise(at, loc, extents, {{x, all}, {most, rows}},
                                  [&](OpBuilder &in, Location l, ValueRange v) -> Value {
                                    Scalar a(in, l, v[0]), m(in, l, v[1]);
                                    return select(a == m, minusNumber(in, l, v[0].getType()), a.constant(-0x1p30));
                                  });
  Value least = tile::reduce(at, loc, numbers, last, tile::Reduction::Max);
  return tile::pointwise(at, loc, extents, {{least, rows}}, [&](OpBuilder &in, Location l, ValueRange v) -> Value {
    Scalar n(in, l, v[0]);
    return select(n == minusNumber(in, l, v[0].getType()), n.constant(1), n.constant(0));
  });
}

Value Rows::tokenSum(phi::TokenSumOp op) {
  Location loc = op.getLoc();
  Value x = op.getX();
  // Products are summed as they are made: a contraction over the tokens.
  if (auto outer = x.getDefiningOp<phi::OuterMatrixOp>(); outer && perToken(outer.getX()) && perToken(outer.getY()))
    return tile::contract(b, loc, {masked(tile(outer.getX())), {2, 0}}, {masked(tile(outer.getY())), {2, 1}}, {0, 1});
  return tile::reduce(b, loc, masked(tile(x)), 0, tile::Reduction::Sum);
}

Value Rows::masked(Value x) {
  if (!mask)
    return x.getDefiningOp<phi::LoadRowsOp>() ? x : tile::onlyRows(b, x.getLoc(), x, arith::CmpIPredicate::ult, valid);
  return tile::pointwise(b, x.getLoc(), tile::shapeOf(x), {{x, tile::allAxes(x)}, {mask, {0}}},
                         [&](OpBuilder &in, Location at, ValueRange e) -> Value {
                           Value i = linalg::IndexOp::create(in, at, 0);
                           Value zero = tile::number(in, at, e[1].getType(), 0);
                           Value counts = arith::AndIOp::create(
                               in, at, arith::CmpIOp::create(in, at, arith::CmpIPredicate::ult, i, valid),
                               arith::CmpFOp::create(in, at, arith::CmpFPredicate::UNE, e[1], zero));
                           return select(counts, phi::Scalar(in, at, e[0]), phi::Scalar(in, at, zero));
                         });
}

Value Rows::matVec(OpBuilder &at, phi::MatVecOp op) {
  Location loc = op.getLoc();
  bool matrixPerToken = perToken(op.getMatrix()), vectorPerToken = perToken(op.getVector());
  if (vectorPerToken && !matrixPerToken)
    return tile::contract(at, loc, {tile(op.getVector()), {0, 2}}, {tile(op.getMatrix()), {1, 2}}, {0, 1});
  // A matrix of its own for each token, or none at all: products, then sums.
  llvm::SmallVector<int64_t> extents = shape(op.getMatrix());
  unsigned rank = extents.size();
  Value products = tile::pointwise(
      at, loc, extents, {operand(op.getMatrix(), rank), operand(op.getVector(), rank)},
      [](OpBuilder &in, Location l, ValueRange v) -> Value { return arith::MulFOp::create(in, l, v[0], v[1]); });
  return tile::reduce(at, loc, products, rank - 1, tile::Reduction::Sum);
}

/// The sum of squares over the last axis.
Value Rows::norm(OpBuilder &at, Value row, Location loc) {
  llvm::SmallVector<int64_t> extents = shape(row);
  unsigned rank = extents.size();
  Value squares =
      tile::pointwise(at, loc, extents, {operand(row, rank)}, [](OpBuilder &in, Location l, ValueRange v) -> Value {
        return arith::MulFOp::create(in, l, v[0], v[0]);
      });
  return tile::reduce(at, loc, squares, rank - 1, tile::Reduction::Sum);
}

Value Rows::unit(OpBuilder &at, phi::UnitOp op) {
  Value squares = norm(at, op.getX(), op.getLoc());
  llvm::SmallVector<int64_t> extents = shape(op.getResult());
  unsigned rank = extents.size();
  return tile::pointwise(at, op.getLoc(), extents, {operand(op.getX(), rank), {squares, rank == 2 ? Axes{0} : Axes{}}},
                         [](OpBuilder &in, Location loc, ValueRange v) -> Value {
                           phi::Scalar x(in, loc, v[0]), s(in, loc, v[1]);
                           return select(s == s.constant(0), x, x / sqrt(s));
                         });
}

Value Rows::stack(OpBuilder &at, phi::StackOp op) {
  llvm::SmallVector<int64_t> extents = shape(op.getResult());
  Value whole = tile::empty(at, op.getLoc(), extents, tile::elementOf(op.getResult()));
  bool each = perToken(op.getResult());
  int64_t begin = 0;
  for (Value part : op.getParts()) {
    Value value = each ? spread(part) : tile(part);
    int64_t size = rowShape(part).empty() ? 1 : rowShape(part)[0];
    llvm::SmallVector<int64_t> offsets;
    if (each)
      offsets.push_back(0);
    offsets.push_back(begin);
    whole = tile::insert(at, op.getLoc(), value, whole, offsets);
    begin += size;
  }
  return whole;
}

Value Rows::slice(OpBuilder &at, phi::SliceOp op) {
  llvm::SmallVector<int64_t> sizes = shape(op.getResult()), offsets(sizes.size(), 0);
  offsets.back() = op.getBegin();
  return tile::slice(at, op.getLoc(), tile(op.getX()), offsets, sizes);
}

/// [n] and [d] : [n, d], for each token where one of them has a side.
Value Rows::outerProducts(OpBuilder &at, Value x, Value y, Location loc) {
  unsigned t = perToken(x) || perToken(y);
  llvm::SmallVector<int64_t> extents;
  if (t)
    extents.push_back(chunk);
  extents.push_back(rowShape(x)[0]);
  extents.push_back(rowShape(y)[0]);
  auto axes = [&](Value row, unsigned along) { return perToken(row) ? Axes{0, along} : Axes{along}; };
  return tile::pointwise(
      at, loc, extents, {{tile(x), axes(x, t)}, {tile(y), axes(y, t + 1)}},
      [](OpBuilder &in, Location l, ValueRange v) -> Value { return arith::MulFOp::create(in, l, v[0], v[1]); });
}

Value Rows::outer(OpBuilder &at, phi::OuterOp op) {
  int64_t t = perToken(op.getResult());
  llvm::SmallVector<ReassociationIndices> groups;
  if (t)
    groups.push_back({0});
  groups.push_back({t, t + 1});
  Value products = outerProducts(at, op.getX(), op.getY(), op.getLoc());
  return tensor::CollapseShapeOp::create(at, op.getLoc(), products, groups);
}

Value Rows::positions(OpBuilder &at, phi::PositionOp op) {
  Type element = tile::elementOf(op.getResult());
  Value start = arith::AddIOp::create(at, op.getLoc(), first, position);
  return tile::pointwise(at, op.getLoc(), {chunk}, {}, [&](OpBuilder &in, Location loc, ValueRange) -> Value {
    Value i = linalg::IndexOp::create(in, loc, 0);
    Value p = arith::AddIOp::create(in, loc, i, start);
    return arith::SIToFPOp::create(in, loc, element, arith::IndexCastOp::create(in, loc, in.getI32Type(), p));
  });
}

Value Rows::lengths(OpBuilder &at, phi::LengthOp op) {
  Type element = tile::elementOf(op.getResult());
  return tile::pointwise(at, op.getLoc(), {}, {}, [&](OpBuilder &in, Location loc, ValueRange) -> Value {
    Value n = arith::IndexCastOp::create(in, loc, in.getI32Type(), prologue.length);
    return arith::SIToFPOp::create(in, loc, element, n);
  });
}

} // namespace yaglom::compiler
