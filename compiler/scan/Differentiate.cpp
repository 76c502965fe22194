// phi-differentiate: reverse mode over a function of rows. What a value without a side feeds to many tokens comes back as a
// sum over tokens; a scan comes back as two scans, one for each side.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Passes.h"

#include "compiler/formula/Emit.h"
#include "compiler/formula/Sides.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numbers>

namespace yaglom::compiler {

#define GEN_PASS_DEF_DIFFERENTIATE
#include "compiler/Passes.h.inc"

using namespace mlir;

namespace {

llvm::ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

class Differentiator {
public:
  explicit Differentiator(func::FuncOp function)
      : function(function), b(function.getBody().front().getTerminator()), loc(function.getLoc()) {}

  void run();

private:
  Type typed(llvm::ArrayRef<int64_t> shape, Value like) {
    return RankedTensorType::get(shape, getElementTypeOrSelf(like));
  }
  Value filled(Type type, double number) {
    auto shaped = cast<RankedTensorType>(type);
    Attribute element = FloatAttr::get(shaped.getElementType(), number);
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(shaped, element));
  }
  Value zeros(Value like) { return filled(like.getType(), 0); }
  Value mul(Type type, Value x, Value y) { return phi::MulOp::create(b, loc, type, x, y); }
  Value broadcast(Value x, Type type) {
    return x.getType() == type ? x : phi::AddOp::create(b, loc, type, filled(type, 0), x).getResult();
  }

  bool isActive(Value value) const { return active.contains(value); }
  void findActive();
  void add(Value operand, Value contribution);
  void pullBack(Operation *op);
  void pullBackPointwise(Operation *op, Value dy);
  void pullBackScan(phi::ScanOp op, Value dy);
  void pullBackSoftmax(phi::SoftmaxAttentionOp op, Value dy);

  func::FuncOp function;
  OpBuilder b;
  Location loc;
  Sides sides;
  llvm::DenseSet<Value> active; ///< depends on an argument
  llvm::DenseMap<Value, Value> gradients;
};

void Differentiator::findActive() {
  for (BlockArgument argument : function.getArguments())
    active.insert(argument);
  for (Operation &op : function.getBody().front())
    if (!isa<phi::PositionOp>(op) && llvm::any_of(op.getOperands(), [&](Value v) { return isActive(v); }))
      active.insert(op.result_begin(), op.result_end());
}

/// Adds a part of the gradient of `operand`, which may have more axes (then the operand was broadcast) or a side that the
/// operand lacks (then it served all tokens).
void Differentiator::add(Value operand, Value contribution) {
  if (!operand || !isActive(operand))
    return;
  if (shapeOf(contribution).size() > shapeOf(operand).size())
    contribution = phi::SumToOp::create(b, loc, operand.getType(), contribution);
  contribution = broadcast(contribution, operand.getType());
  if (!sides.perToken(operand) && sides.perToken(contribution))
    contribution = phi::TokenSumOp::create(b, loc, operand.getType(), contribution);
  Value &gradient = gradients[operand];
  gradient =
      gradient ? phi::AddOp::create(b, loc, operand.getType(), gradient, contribution).getResult() : contribution;
}

void Differentiator::pullBackPointwise(Operation *op, Value dy) {
  Type type = op->getResult(0).getType();
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (!isActive(operand))
      continue;
    // The linear ones need no derivative op; the rest is in their records.
    if (isa<phi::AddOp>(op) || (isa<phi::SubOp>(op) && index == 0)) {
      add(operand, dy);
    } else if (isa<phi::SubOp, phi::NegOp>(op)) {
      add(operand, phi::NegOp::create(b, loc, type, dy));
    } else if (isa<phi::MulOp>(op)) {
      add(operand, mul(type, dy, op->getOperand(1 - index)));
    } else {
      llvm::SmallVector<Value> operands(op->getOperands());
      operands.push_back(op->getResult(0));
      Value slope = phi::DerivativeOp::create(b, loc, type, b.getStringAttr(op->getName().getStringRef()),
                                              b.getI64IntegerAttr(index), operands);
      add(operand, mul(type, dy, slope));
    }
  }
}

/// The state of the reversed scan: like the scan's, with exponents where queries have one for each feature, or where the
/// scan's own maxima enter b.
static ArrayAttr reversedState(OpBuilder &b, phi::ScanOp op) {
  if (!op.tracksExponents() && !op.getQExponent())
    return op.getStateAttr();
  llvm::SmallVector<Attribute> types(op.getState().begin(), op.getState().end());
  types.truncate(op.normalizes() ? 2 : 1);
  auto features = cast<RankedTensorType>(op.getQ().getType());
  bool byFeature = op.getQExponent() && !shapeOf(op.getQExponent()).empty();
  types.push_back(TypeAttr::get(byFeature ? features : RankedTensorType::get({}, features.getElementType())));
  return b.getArrayAttr(types);
}

/// Both halves share w, w0 and b, one row each for a query. An exponent's gradient is that of its feature times the feature
/// and ln 2; one that is common to a query's features is part of s.
void Differentiator::pullBackScan(phi::ScanOp op, Value dy) {
  Type scalar = typed({}, dy);
  auto query = phi::ScanGradQueryOp::create(
      b, loc, TypeRange{op.getQ().getType(), scalar, scalar, op.getType(), scalar, scalar, scalar}, op.getQ(),
      op.getK(), op.getV(), op.getScale(), op.getQExponent(), op.getKExponent(), op.getLog2Decay(), op.getMask(), dy,
      op.getDirectionAttr(), op.getNormalizeAttr(), op.getThresholdAttr(), op.getStateAttr());
  auto byExponent = [&](Value feature, Value gradient) {
    Type type = feature.getType();
    return mul(type, mul(type, feature, gradient), filled(scalar, std::numbers::ln2));
  };
  query->setAttr(kStateOffsetAttr, op->getAttr(kStateOffsetAttr));
  add(op.getQ(), query.getDq());
  add(op.getScale(), query.getDscale());
  if (Value exponent = op.getQExponent(); exponent && !shapeOf(exponent).empty())
    add(exponent, byExponent(op.getQ(), query.getDq()));
  else if (exponent)
    add(exponent, mul(scalar, query.getT(), filled(scalar, std::numbers::ln2)));
  auto key = phi::ScanGradKeyOp::create(b, loc, TypeRange{op.getK().getType(), op.getV().getType(), scalar}, op.getQ(),
                                        op.getK(), op.getV(), op.getQExponent(), op.getKExponent(), op.getLog2Decay(),
                                        op.getMask(), query.getW(), query.getW0(), query.getB(), op.getDirectionAttr(),
                                        op.getNormalizeAttr(), reversedState(b, op));
  add(op.getK(), key.getDk());
  if (op.getKExponent())
    add(op.getKExponent(), byExponent(op.getK(), key.getDk()));
  add(op.getV(), key.getDv());
  if (op.getLog2Decay())
    add(op.getLog2Decay(),
        phi::ScanGradDecayOp::create(b, loc, scalar, query.getR(), key.getC(), op.getLog2Decay(), op.getMask()));
}

void Differentiator::pullBackSoftmax(phi::SoftmaxAttentionOp op, Value dy) {
  Type scalar = typed({}, dy);
  Value scale = op.getScale();
  if (!scale)
    scale = filled(scalar, 1 / std::sqrt(double(shapeOf(op.getQ())[0])));
  auto query =
      phi::SoftmaxGradQueryOp::create(b, loc, TypeRange{op.getQ().getType(), scalar, scalar}, op.getQ(), op.getK(),
                                      op.getV(), op.getScale(), op.getMask(), dy, op.getCausalAttr());
  auto key = phi::SoftmaxGradKeyOp::create(b, loc, TypeRange{op.getK().getType(), op.getV().getType()}, op.getQ(),
                                           op.getK(), op.getV(), op.getScale(), op.getMask(), dy, query.getLse(),
                                           query.getDelta(), op.getCausalAttr());
  add(op.getQ(), mul(op.getQ().getType(), query.getY(), scale));
  add(op.getK(), mul(op.getK().getType(), key.getY(), scale));
  add(op.getV(), key.getDv());
  if (op.getScale())
    add(op.getScale(), mul(op.getQ().getType(), op.getQ(), query.getY()));
}

void Differentiator::pullBack(Operation *op) {
  loc = op->getLoc();
  Value dy = op->getNumResults() == 1 ? gradients.lookup(op->getResult(0)) : Value();
  if (!dy)
    return;
  llvm::TypeSwitch<Operation *>(op)
      .Case<phi::PointwiseOpInterface>([&](auto) { pullBackPointwise(op, dy); })
      .Case([&](phi::MatVecOp o) {
        add(o.getMatrix(), phi::OuterMatrixOp::create(b, loc, o.getMatrix().getType(), dy, o.getVector()));
        add(o.getVector(), phi::MatVecTransposedOp::create(b, loc, o.getVector().getType(), o.getMatrix(), dy));
      })
      .Case([&](phi::SumOp o) { add(o.getX(), dy); })
      .Case([&](phi::RowMaxOp o) {
        Value first = phi::FirstMaxOp::create(b, loc, o.getX().getType(), o.getX());
        add(o.getX(), mul(first.getType(), first, dy));
      })
      .Case([&](phi::NormOp o) {
        Type type = o.getX().getType();
        Value direction = phi::DivOrZeroOp::create(b, loc, type, o.getX(), o.getResult());
        add(o.getX(), mul(type, direction, dy));
      })
      .Case([&](phi::UnitOp o) {
        // (dy - u (u . dy)) / |x|
        Type type = o.getType();
        Value along = phi::SumOp::create(b, loc, typed({}, dy), mul(type, o.getResult(), dy));
        Value across = phi::SubOp::create(b, loc, type, dy, mul(type, o.getResult(), along));
        Value norm = phi::NormOp::create(b, loc, typed({}, dy), o.getX());
        add(o.getX(), phi::DivOrZeroOp::create(b, loc, type, across, norm));
      })
      .Case([&](phi::StackOp o) {
        int64_t begin = 0;
        for (Value part : o.getParts()) {
          bool isScalar = shapeOf(part).empty();
          int64_t size = isScalar ? 1 : shapeOf(part)[0];
          Value piece = phi::SliceOp::create(b, loc, typed({size}, dy), dy, begin);
          add(part, isScalar ? phi::SumOp::create(b, loc, part.getType(), piece).getResult() : piece);
          begin += size;
        }
      })
      .Case([&](phi::SliceOp o) {
        int64_t size = shapeOf(o.getResult())[0], before = o.getBegin(), after = shapeOf(o.getX())[0] - before - size;
        llvm::SmallVector<Value> parts;
        if (before)
          parts.push_back(filled(typed({before}, dy), 0));
        parts.push_back(dy);
        if (after)
          parts.push_back(filled(typed({after}, dy), 0));
        add(o.getX(), parts.size() == 1 ? dy : phi::StackOp::create(b, loc, o.getX().getType(), parts).getResult());
      })
      .Case([&](phi::OuterOp o) {
        Type type = typed({shapeOf(o.getX())[0], shapeOf(o.getY())[0]}, dy);
        Value matrix = phi::MatrixOp::create(b, loc, type, dy);
        add(o.getX(), phi::MatVecOp::create(b, loc, o.getX().getType(), matrix, o.getY()));
        add(o.getY(), phi::MatVecTransposedOp::create(b, loc, o.getY().getType(), matrix, o.getX()));
      })
      .Case([&](phi::SoftmaxAttentionOp o) { pullBackSoftmax(o, dy); })
      .Case([&](phi::ScanOp o) { pullBackScan(o, dy); });
}

/// Where forward launches keep the state of each scan: one after the other.
static void placeStates(func::FuncOp function) {
  int64_t offset = 0;
  function.walk([&](phi::ScanOp op) {
    op->setAttr(kStateOffsetAttr, Builder(op.getContext()).getI64IntegerAttr(offset));
    offset += op.stateElements();
  });
}

void Differentiator::run() {
  placeStates(function);
  findActive();
  auto end = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  unsigned inputs = function.getNumArguments();
  llvm::SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front().without_terminator())
    ops.push_back(&op);
  auto side = b.getNamedAttr(kSideAttr, b.getStringAttr("query"));
  for (Value result : end.getOperands()) {
    if (failed(function.insertArgument(function.getNumArguments(), result.getType(), b.getDictionaryAttr({side}), loc)))
      llvm_unreachable("an argument can always be appended");
    add(result, function.getArguments().back());
  }
  for (Operation *op : llvm::reverse(ops))
    pullBack(op);
  llvm::SmallVector<Value> results;
  for (BlockArgument argument : function.getArguments().take_front(inputs)) {
    Value gradient = gradients.lookup(argument);
    results.push_back(gradient ? gradient : zeros(argument));
  }
  end->setOperands(results);
  function.setFunctionType(b.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
}

struct DifferentiatePass : impl::DifferentiateBase<DifferentiatePass> {
  void runOnOperation() override {
    Builder b(&getContext());
    for (func::FuncOp function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (function->hasAttr(kGradientAttr)) {
        function.emitError("is a gradient already: second derivatives are not supported");
        return signalPassFailure();
      }
      func::FuncOp gradient = function.clone();
      gradient.setName(function.getName() == kForward ? kBackward.str()
                                                      : function.getName().str() + kGradientSuffix.str());
      gradient->setAttr(kGradientAttr, b.getI64IntegerAttr(function.getNumArguments()));
      getOperation().push_back(gradient);
      Differentiator(gradient).run();
    }
  }
};

} // namespace

} // namespace yaglom::compiler
