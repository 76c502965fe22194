// phi-simplify: cheaper or safer formulas with the same meaning.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Passes.h"

#include "compiler/formula/Sides.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <optional>

namespace yaglom::compiler {

#define GEN_PASS_DEF_SIMPLIFY
#include "compiler/Passes.h.inc"

using namespace mlir;

namespace {

std::optional<double> splat(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  auto attr = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : DenseFPElementsAttr();
  if (!attr || !attr.isSplat())
    return std::nullopt;
  return attr.getSplatValue<APFloat>().convertToDouble();
}

Value makeConstant(OpBuilder &b, Location loc, Type type, double number) {
  auto shaped = cast<RankedTensorType>(type);
  Attribute element = FloatAttr::get(shaped.getElementType(), number);
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(shaped, element));
}

/// Elementary functions of constants are computed in double and rounded once.
struct FoldPointwise : OpInterfaceRewritePattern<phi::PointwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(phi::PointwiseOpInterface op, PatternRewriter &rewriter) const override {
    llvm::SmallVector<double> numbers;
    for (Value operand : op->getOperands()) {
      std::optional<double> number = splat(operand);
      if (!number)
        return failure();
      numbers.push_back(*number);
    }
    rewriter.replaceOp(op, makeConstant(rewriter, op.getLoc(), op->getResult(0).getType(), op.evaluate(numbers)));
    return success();
  }
};

struct SimplifyPow : OpRewritePattern<phi::PowOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(phi::PowOp op, PatternRewriter &rewriter) const override {
    std::optional<double> exponent = splat(op.getY());
    if (!exponent || op.getX().getType() != op.getType())
      return failure();
    Location loc = op.getLoc();
    Value x = op.getX();
    if (auto norm = x.getDefiningOp<phi::NormOp>(); norm && *exponent == 2) {
      Value v = norm.getX();
      Value squares = phi::MulOp::create(rewriter, loc, v.getType(), v, v);
      rewriter.replaceOpWithNewOp<phi::SumOp>(op, op.getType(), squares);
      return success();
    }
    if (*exponent == 0.5) {
      rewriter.replaceOpWithNewOp<phi::SqrtOp>(op, op.getType(), x);
      return success();
    }
    if (*exponent != 1 && *exponent != 2 && *exponent != 3 && *exponent != 4)
      return failure();
    Value power = x;
    for (int n = 2; n <= int(*exponent) && n <= 3; ++n)
      power = phi::MulOp::create(rewriter, loc, op.getType(), power, x);
    if (*exponent == 4) {
      Value square = phi::MulOp::create(rewriter, loc, op.getType(), x, x);
      power = phi::MulOp::create(rewriter, loc, op.getType(), square, square);
    }
    rewriter.replaceOp(op, power);
    return success();
  }
};

/// elu(x) + 1 computed as written underflows to 0 below about -17 in float32 (language.md section 8).
struct FoldEluPlusOne : OpRewritePattern<phi::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(phi::AddOp op, PatternRewriter &rewriter) const override {
    for (auto [a, c] : {std::pair(op.getX(), op.getY()), std::pair(op.getY(), op.getX())})
      if (auto elu = a.getDefiningOp<phi::EluOp>(); elu && splat(c) == 1.0 && elu.getType() == op.getType()) {
        rewriter.replaceOpWithNewOp<phi::Elu1Op>(op, op.getType(), elu.getX());
        return success();
      }
    return failure();
  }
};

struct DropNeutral : OpRewritePattern<phi::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(phi::MulOp op, PatternRewriter &rewriter) const override {
    for (auto [a, c] : {std::pair(op.getX(), op.getY()), std::pair(op.getY(), op.getX())})
      if (splat(c) == 1.0 && a.getType() == op.getType()) {
        rewriter.replaceOp(op, a);
        return success();
      }
    return failure();
  }
};

/// x / c with c the same for all tokens: one division a head instead of one a row.
struct DivideOnce : OpRewritePattern<phi::DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(phi::DivOp op, PatternRewriter &rewriter) const override {
    Sides sides;
    Value x = op.getX(), y = op.getY();
    bool one = splat(x) == 1.0;
    if (one || sides.perToken(y) || (!sides.perToken(x) && !splat(y)))
      return failure();
    Value unit = makeConstant(rewriter, op.getLoc(), RankedTensorType::get({}, getElementTypeOrSelf(y)), 1.0);
    Value reciprocal = phi::DivOp::create(rewriter, op.getLoc(), y.getType(), unit, y);
    rewriter.replaceOpWithNewOp<phi::MulOp>(op, op.getType(), x, reciprocal);
    return success();
  }
};

struct SimplifyPass : impl::SimplifyBase<SimplifyPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldPointwise, SimplifyPow, FoldEluPlusOne, DropNeutral, DivideOnce>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

} // namespace yaglom::compiler
