// Builders of the ops of a tile program.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/TileOps.h"

#include "compiler/tile/Schedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

#include <limits>

using namespace mlir;

namespace yaglom::compiler::tile {

llvm::ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

Value index(OpBuilder &b, Location loc, int64_t number) { return arith::ConstantIndexOp::create(b, loc, number); }

Value number(OpBuilder &b, Location loc, Type element, double x) {
  return arith::ConstantOp::create(b, loc, FloatAttr::get(element, x));
}

Axes allAxes(Value x) {
  Axes axes;
  for (unsigned i = 0; i < shapeOf(x).size(); ++i)
    axes.push_back(i);
  return axes;
}

Value holdsNonFinite(OpBuilder &b, Location loc, Value x) {
  Value sum =
      map(b, loc, shapeOf(x), {{x, allAxes(x)}}, [](llvm::ArrayRef<phi::Scalar> e) { return e[0] * e[0].constant(0); });
  while (!shapeOf(sum).empty())
    sum = reduce(b, loc, sum, 0, Reduction::Sum);
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, scalar(b, loc, sum), number(b, loc, elementOf(x), 0));
}

Value onlyRows(OpBuilder &b, Location loc, Value x, arith::CmpIPredicate which, Value bound) {
  return pointwise(b, loc, shapeOf(x), {{x, allAxes(x)}}, [&](OpBuilder &in, Location at, ValueRange e) -> Value {
    phi::Scalar value(in, at, e[0]);
    Value i = linalg::IndexOp::create(in, at, 0);
    return select(arith::CmpIOp::create(in, at, which, i, bound), value, value.constant(0));
  });
}

Value insertRows(OpBuilder &b, Location loc, Value now, Value old, Value whole, int64_t row, arith::CmpIPredicate which,
                 Value bound) {
  llvm::SmallVector<int64_t> sizes(shapeOf(now)), offsets(sizes.size(), 0);
  offsets[0] = row;
  Axes axes = allAxes(now);
  Value chosen = pointwise(b, loc, sizes, {{now, axes}, {slice(b, loc, old, offsets, sizes), axes}},
                           [&](OpBuilder &in, Location at, ValueRange x) -> Value {
                             Value i = linalg::IndexOp::create(in, at, 0);
                             i = arith::AddIOp::create(in, at, i, index(in, at, row));
                             Value isNow = arith::CmpIOp::create(in, at, which, i, bound);
                             return arith::SelectOp::create(in, at, isNow, x[0], x[1]);
                           });
  return insert(b, loc, chosen, whole, offsets);
}

Value empty(OpBuilder &b, Location loc, llvm::ArrayRef<int64_t> shape, Type element) {
  return tensor::EmptyOp::create(b, loc, shape, element);
}

Value filled(OpBuilder &b, Location loc, llvm::ArrayRef<int64_t> shape, Type element, double x) {
  Value value = number(b, loc, element, x), target = empty(b, loc, shape, element);
  return linalg::FillOp::create(b, loc, ValueRange{value}, ValueRange{target}).getResult(0);
}

static AffineMap mapOf(OpBuilder &b, unsigned dims, const Axes &axes) {
  llvm::SmallVector<AffineExpr> exprs;
  for (unsigned axis : axes)
    exprs.push_back(b.getAffineDimExpr(axis));
  return AffineMap::get(dims, 0, exprs, b.getContext());
}

Value pointwise(OpBuilder &b, Location loc, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Operand> operands,
                Body body) {
  unsigned rank = shape.size();
  llvm::SmallVector<AffineMap> maps;
  llvm::SmallVector<Value> inputs;
  for (const Operand &operand : operands) {
    maps.push_back(mapOf(b, rank, operand.axes));
    inputs.push_back(operand.value);
  }
  maps.push_back(b.getMultiDimIdentityMap(rank));
  llvm::SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);

  // The body tells the element type: it is built first, in a block that becomes the op's own.
  Block *block = new Block;
  for (Value input : inputs)
    block->addArgument(elementOf(input), loc);
  OpBuilder inner(b.getContext());
  inner.setInsertionPointToStart(block);
  Value result = body(inner, loc, block->getArguments());
  linalg::YieldOp::create(inner, loc, result);
  Type element = result.getType();
  block->addArgument(element, loc);
  Value target = empty(b, loc, shape, element);
  auto op = linalg::GenericOp::create(b, loc, TypeRange{target.getType()}, inputs, ValueRange{target}, maps, iterators);
  op.getRegion().push_back(block);
  return op.getResult(0);
}

Value map(OpBuilder &b, Location loc, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Operand> operands,
          llvm::function_ref<Value(llvm::ArrayRef<phi::Scalar>)> body) {
  return pointwise(b, loc, shape, operands, [&](OpBuilder &in, Location at, ValueRange values) {
    llvm::SmallVector<phi::Scalar> entries;
    for (Value value : values)
      entries.emplace_back(in, at, value);
    return body(entries);
  });
}

Value scalar(OpBuilder &b, Location loc, Value x) { return tensor::ExtractOp::create(b, loc, x, ValueRange{}); }

Value contract(OpBuilder &b, Location loc, Operand lhs, Operand rhs, Axes result, Value init) {
  unsigned dims = 0;
  for (const Axes &axes : {lhs.axes, rhs.axes})
    for (unsigned axis : axes)
      dims = std::max(dims, axis + 1);
  llvm::SmallVector<int64_t> extents(dims), shape;
  for (const Operand &operand : {lhs, rhs})
    for (auto [axis, size] : llvm::zip(operand.axes, shapeOf(operand.value)))
      extents[axis] = size;
  for (unsigned axis : result)
    shape.push_back(extents[axis]);
  if (!init)
    init = filled(b, loc, shape, elementOf(lhs.value), 0);
  auto maps = b.getAffineMapArrayAttr({mapOf(b, dims, lhs.axes), mapOf(b, dims, rhs.axes), mapOf(b, dims, result)});
  return linalg::ContractOp::create(b, loc, TypeRange{init.getType()}, ValueRange{lhs.value, rhs.value},
                                    ValueRange{init}, maps)
      .getResult(0);
}

Value reduce(OpBuilder &b, Location loc, Value x, unsigned axis, Reduction kind) {
  llvm::SmallVector<int64_t> shape(shapeOf(x));
  shape.erase(shape.begin() + axis);
  double start = kind == Reduction::Sum   ? 0
                 : kind == Reduction::Max ? -std::numeric_limits<double>::infinity()
                                          : lowExponent(elementOf(x));
  Value init = filled(b, loc, shape, elementOf(x), start);
  auto combine = [&](OpBuilder &inner, Location at, ValueRange v) {
    Value r = kind == Reduction::Sum ? arith::AddFOp::create(inner, at, v[0], v[1]).getResult()
                                     : arith::MaxNumFOp::create(inner, at, v[0], v[1]).getResult();
    linalg::YieldOp::create(inner, at, r);
  };
  return linalg::ReduceOp::create(b, loc, ValueRange{x}, ValueRange{init}, llvm::ArrayRef<int64_t>{int64_t(axis)},
                                  combine)
      .getResult(0);
}

Value slice(OpBuilder &b, Location loc, Value x, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes) {
  if (sizes == shapeOf(x))
    return x;
  llvm::SmallVector<int64_t> strides(sizes.size(), 1);
  auto type = RankedTensorType::get(sizes, elementOf(x));
  return tensor::ExtractSliceOp::create(b, loc, type, x, ValueRange{}, ValueRange{}, ValueRange{}, offsets, sizes,
                                        strides);
}

Value insert(OpBuilder &b, Location loc, Value x, Value target, llvm::ArrayRef<int64_t> offsets) {
  llvm::SmallVector<int64_t> sizes(shapeOf(x)), strides(offsets.size(), 1);
  sizes.resize(offsets.size(), 1);
  return tensor::InsertSliceOp::create(b, loc, x, target, ValueRange{}, ValueRange{}, ValueRange{}, offsets, sizes,
                                       strides);
}

} // namespace yaglom::compiler::tile
