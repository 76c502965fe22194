// The exponent of a product is a sum, of a quotient a difference, of a stack a stack.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/scan/Exponents.h"

#include "dialect/Phi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

#include <numbers>

using namespace mlir;

namespace yaglom::compiler {

namespace {

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

Value number(OpBuilder &b, Value like, ArrayRef<int64_t> shape, double x) {
  auto element = cast<FloatType>(getElementTypeOrSelf(like));
  auto type = RankedTensorType::get(shape, element);
  return arith::ConstantOp::create(b, like.getLoc(),
                                   DenseElementsAttr::get(type, Attribute(FloatAttr::get(element, x))));
}

template <typename Op>
Value combine(OpBuilder &b, Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  Type type = shapeOf(x).size() >= shapeOf(y).size() ? x.getType() : y.getType();
  return Op::create(b, x.getLoc(), type, x, y);
}

Value broadcastTo(OpBuilder &b, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  Value zero = number(b, value, shape, 0);
  return phi::AddOp::create(b, value.getLoc(), zero.getType(), zero, value);
}

Split splitStack(OpBuilder &b, phi::StackOp op) {
  llvm::SmallVector<Split> parts;
  bool any = false, common = true;
  for (Value part : op.getParts()) {
    parts.push_back(splitExponent(b, part));
    any |= bool(parts.back().exponent);
    common &= parts.back().exponent && parts.back().exponent == parts.front().exponent &&
              shapeOf(parts.back().exponent).empty();
  }
  if (!any)
    return {{}, op};
  llvm::SmallVector<Value> exponents, mantissas;
  for (auto [part, split] : llvm::zip(op.getParts(), parts)) {
    Value exponent = split.exponent ? split.exponent : number(b, part, {}, 0);
    exponents.push_back(broadcastTo(b, exponent, shapeOf(part)));
    mantissas.push_back(broadcastTo(b, split.mantissa, shapeOf(part)));
  }
  Value mantissa = phi::StackOp::create(b, op.getLoc(), op.getType(), mantissas);
  if (common)
    return {parts.front().exponent, mantissa};
  return {phi::StackOp::create(b, op.getLoc(), op.getType(), exponents), mantissa};
}

} // namespace

Split splitExponent(OpBuilder &b, Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {{}, value};
  Location loc = op->getLoc();
  if (isa<phi::ExpOp, phi::Exp2Op>(op)) {
    Value f = op->getOperand(0);
    if (isa<phi::ExpOp>(op))
      f = phi::MulOp::create(b, loc, f.getType(), f, number(b, f, {}, std::numbers::log2e));
    return {f, number(b, value, shapeOf(value), 1)};
  }
  if (isa<phi::MulOp, phi::DivOp>(op)) {
    Split x = splitExponent(b, op->getOperand(0)), y = splitExponent(b, op->getOperand(1));
    if (!x.exponent && !y.exponent)
      return {{}, value};
    OperationState state(loc, op->getName());
    state.addOperands({broadcastTo(b, x.mantissa, shapeOf(op->getOperand(0))), y.mantissa});
    state.addTypes(value.getType());
    Value mantissa = b.create(state)->getResult(0);
    if (isa<phi::MulOp>(op))
      return {combine<phi::AddOp>(b, x.exponent, y.exponent), mantissa};
    if (y.exponent)
      y.exponent = phi::NegOp::create(b, loc, y.exponent.getType(), y.exponent);
    return {combine<phi::AddOp>(b, x.exponent, y.exponent), mantissa};
  }
  if (auto stack = dyn_cast<phi::StackOp>(op))
    return splitStack(b, stack);
  return {{}, value};
}

Factored splitScalarFactor(OpBuilder &b, Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<phi::MulOp, phi::DivOp>(op) || shapeOf(value).empty())
    return {{}, value};
  Value x = op->getOperand(0), y = op->getOperand(1);
  if (isa<phi::MulOp>(op) && shapeOf(x).empty())
    std::swap(x, y);
  if (!shapeOf(y).empty() || shapeOf(x) != shapeOf(value))
    return {{}, value};
  if (isa<phi::DivOp>(op))
    y = phi::DivOp::create(b, op->getLoc(), y.getType(), number(b, y, {}, 1), y);
  Factored inner = splitScalarFactor(b, x);
  return {combine<phi::MulOp>(b, inner.factor, y), inner.rest};
}

} // namespace yaglom::compiler
