// Definitions of the phi dialect: registration and verifiers.
// SPDX-License-Identifier: Apache-2.0
#include "dialect/Phi.h"

#include "dialect/Scalar.h"
#include "mlir/IR/OpImplementation.h"

#include <cmath>

using namespace mlir;
using namespace yaglom::phi;

#include "dialect/PhiDialect.cpp.inc"
#include "dialect/PhiInterfaces.cpp.inc"

namespace {

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

/// T3: equal shapes, a scalar, or [d] along the rows of [n, d].
bool broadcasts(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  return from.size() <= to.size() && to.take_back(from.size()) == from &&
         (from.empty() || from.size() == to.size() || (from.size() == 1 && to.size() == 2));
}

LogicalResult verifyPointwise(Operation *op) {
  for (Value operand : op->getOperands())
    if (!broadcasts(shapeOf(operand), shapeOf(op->getResult(0))))
      return op->emitOpError("operand ") << operand.getType() << " does not broadcast to "
                                         << op->getResult(0).getType();
  return success();
}

LogicalResult verifyFeatures(Operation *op, Value q, Value k) {
  if (shapeOf(q) != shapeOf(k))
    return op->emitOpError("features of the query and the key differ: ") << q.getType() << " and " << k.getType();
  return success();
}

} // namespace

#define GET_OP_CLASSES
#include "dialect/PhiOps.cpp.inc"

void PhiDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialect/PhiOps.cpp.inc"
      >();
}

Value DerivativeOp::lower(OpBuilder &builder, Location loc, ValueRange operands) {
  auto name = RegisteredOperationName::lookup(getOf(), getContext());
  return name->getInterface<PointwiseOpInterface>()->derivative(builder, loc, getIndex(), operands.drop_back(),
                                                                operands.back());
}

LogicalResult MatVecOp::verify() {
  ArrayRef<int64_t> matrix = shapeOf(getMatrix()), vector = shapeOf(getVector()), result = shapeOf(getResult());
  if (matrix.size() != 2 || vector.size() != 1 || result.size() != 1 || matrix[1] != vector[0] ||
      matrix[0] != result[0])
    return emitOpError("expects [n, d] and [d] to give [n]");
  return success();
}

LogicalResult StackOp::verify() {
  int64_t size = 0;
  for (Value part : getParts())
    size += shapeOf(part).empty() ? 1 : shapeOf(part)[0];
  if (shapeOf(getResult()).size() != 1 || shapeOf(getResult())[0] != size)
    return emitOpError("parts have ") << size << " entries in all";
  return success();
}

LogicalResult SliceOp::verify() {
  int64_t begin = getBegin(), size = shapeOf(getResult())[0];
  if (begin < 0 || begin + size > shapeOf(getX())[0])
    return emitOpError("reads entries ") << begin << " .. " << begin + size - 1 << " of " << getX().getType();
  return success();
}

LogicalResult LinearOp::verify() { return verifyFeatures(*this, getQ(), getK()); }
LogicalResult ScanOp::verify() { return verifyFeatures(*this, getQ(), getK()); }
LogicalResult SoftmaxAttentionOp::verify() { return verifyFeatures(*this, getQ(), getK()); }
