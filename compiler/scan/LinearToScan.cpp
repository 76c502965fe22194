// phi-linear-to-scan: state, exponents and decay of linear attention become explicit.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Passes.h"

#include "compiler/formula/Sides.h"
#include "compiler/scan/Exponents.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numbers>

namespace yaglom::compiler {

#define GEN_PASS_DEF_LINEARTOSCAN
#include "compiler/Passes.h.inc"

using namespace mlir;

namespace {

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

bool isNonzeroConstant(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  auto attr = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : DenseFPElementsAttr();
  return attr && attr.isSplat() && !attr.getSplatValue<APFloat>().isZero();
}

Value log2Decay(OpBuilder &b, phi::LinearOp op) {
  Value decay = op.getDecay();
  if (!decay)
    return {};
  Location loc = op.getLoc();
  Type type = decay.getType();
  if (!op.getLogDecay())
    decay = phi::LogDecayOp::create(b, loc, type, decay);
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  auto attr =
      DenseElementsAttr::get(cast<RankedTensorType>(type), Attribute(FloatAttr::get(element, std::numbers::log2e)));
  return phi::MulOp::create(b, loc, type, decay, arith::ConstantOp::create(b, loc, attr));
}

/// What the state holds, as types: S [F, e], z [F], a [F] or [].
ArrayAttr stateTypes(OpBuilder &b, phi::LinearOp op, Value kExponent, bool decays) {
  Type element = getElementTypeOrSelf(op.getType());
  int64_t features = shapeOf(op.getK())[0], width = shapeOf(op.getV())[0];
  llvm::SmallVector<Attribute> types{TypeAttr::get(RankedTensorType::get({features, width}, element))};
  if (op.getNormalize() != "none")
    types.push_back(TypeAttr::get(RankedTensorType::get({features}, element)));
  if (kExponent || decays) {
    ArrayRef<int64_t> shape = kExponent ? shapeOf(kExponent) : ArrayRef<int64_t>();
    types.push_back(TypeAttr::get(RankedTensorType::get(shape, element)));
  }
  return b.getArrayAttr(types);
}

void convert(phi::LinearOp op) {
  OpBuilder b(op);
  bool bare = op.getNormalize() == "bare";
  Split q = splitExponent(b, op.getQ()), k = splitExponent(b, op.getK());
  Factored query = splitScalarFactor(b, q.mantissa), key = splitScalarFactor(b, k.mantissa);
  Value scale = query.factor;
  // A factor of the query row alone divides out of O_i / D_i unless it is 0; so does one that is common to all keys.
  if (bare) {
    if (scale && isNonzeroConstant(scale))
      scale = {};
    if (key.factor && !Sides().perToken(key.factor)) {
      k.mantissa = key.rest;
      if (scale)
        scale = phi::MulOp::create(b, op.getLoc(), scale.getType(), scale, key.factor);
      else if (!isNonzeroConstant(key.factor))
        scale = key.factor;
    }
    if (q.exponent && shapeOf(q.exponent).empty())
      q.exponent = {};
  }
  Value decay = log2Decay(b, op);
  auto scan = phi::ScanOp::create(b, op.getLoc(), op.getType(), query.rest, k.mantissa, op.getV(), scale, q.exponent,
                                  k.exponent, decay, op.getMask(), b.getStringAttr(op.getCausal() ? "causal" : "both"),
                                  b.getStringAttr(op.getNormalize()), op.getThresholdAttr(),
                                  stateTypes(b, op, k.exponent, bool(decay)));
  op.replaceAllUsesWith(scan.getResult());
  op.erase();
}

struct LinearToScanPass : impl::LinearToScanBase<LinearToScanPass> {
  void runOnOperation() override {
    llvm::SmallVector<phi::LinearOp> ops;
    getOperation().walk([&](phi::LinearOp op) { ops.push_back(op); });
    for (phi::LinearOp op : ops)
      convert(op);
    // What the split left behind is dead: pure ops, users before definitions.
    llvm::SmallVector<Operation *> all;
    getOperation().walk([&](Operation *op) { all.push_back(op); });
    for (Operation *op : llvm::reverse(all))
      if (isOpTriviallyDead(op))
        op->erase();
  }
};

} // namespace

} // namespace yaglom::compiler
