// Arithmetic on scalar or vector values, written as formulas: what the records of Pointwise.td are lowered with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace yaglom::phi {

/// A float value together with where its users are built. Operators emit ops.
class Scalar {
public:
  Scalar(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value) : b(&builder), loc(loc), v(value) {}
  operator mlir::Value() const { return v; }

  /// A constant of this value's type.
  Scalar constant(double number) const {
    mlir::Type type = v.getType();
    auto element = mlir::cast<mlir::FloatType>(mlir::getElementTypeOrSelf(type));
    mlir::TypedAttr attr = mlir::FloatAttr::get(element, number);
    if (auto shaped = mlir::dyn_cast<mlir::ShapedType>(type))
      attr = mlir::DenseElementsAttr::get(shaped, mlir::cast<mlir::Attribute>(attr));
    return wrap(mlir::arith::ConstantOp::create(*b, loc, attr));
  }

  Scalar operator-() const { return make<mlir::arith::NegFOp>(); }
  friend Scalar operator+(Scalar x, Scalar y) { return x.make<mlir::arith::AddFOp>(y); }
  friend Scalar operator-(Scalar x, Scalar y) { return x.make<mlir::arith::SubFOp>(y); }
  friend Scalar operator*(Scalar x, Scalar y) { return x.make<mlir::arith::MulFOp>(y); }
  friend Scalar operator/(Scalar x, Scalar y) { return x.make<mlir::arith::DivFOp>(y); }
  /// Ordered comparisons: false with a NaN.
  friend mlir::Value operator>(Scalar x, Scalar y) { return x.compare(mlir::arith::CmpFPredicate::OGT, y); }
  friend mlir::Value operator<(Scalar x, Scalar y) { return x.compare(mlir::arith::CmpFPredicate::OLT, y); }
  friend mlir::Value operator<=(Scalar x, Scalar y) { return x.compare(mlir::arith::CmpFPredicate::OLE, y); }
  friend mlir::Value operator==(Scalar x, Scalar y) { return x.compare(mlir::arith::CmpFPredicate::OEQ, y); }

  friend Scalar select(mlir::Value condition, Scalar x, Scalar y) {
    return x.wrap(mlir::arith::SelectOp::create(*x.b, x.loc, condition, x.v, y.v));
  }
  /// A derivative of min or max: 1 where `chosen`, a half where `tied`, else 0; `like` gives the type.
  friend Scalar half(mlir::Value chosen, mlir::Value tied, Scalar like) {
    return select(chosen, like.constant(1), select(tied, like.constant(0.5), like.constant(0)));
  }
  /// A NaN operand gives NaN.
  friend Scalar min(Scalar x, Scalar y) { return x.make<mlir::arith::MinimumFOp>(y); }
  friend Scalar max(Scalar x, Scalar y) { return x.make<mlir::arith::MaximumFOp>(y); }
  /// A NaN operand is passed over.
  friend Scalar maxNumber(Scalar x, Scalar y) { return x.make<mlir::arith::MaxNumFOp>(y); }
  friend Scalar abs(Scalar x) { return x.make<mlir::math::AbsFOp>(); }
  friend Scalar floor(Scalar x) { return x.make<mlir::math::FloorOp>(); }
  friend Scalar sqrt(Scalar x) { return x.make<mlir::math::SqrtOp>(); }
  friend Scalar exp(Scalar x) { return x.make<mlir::math::ExpOp>(); }
  friend Scalar exp2(Scalar x) { return x.make<mlir::math::Exp2Op>(); }
  friend Scalar expm1(Scalar x) { return x.make<mlir::math::ExpM1Op>(); }
  friend Scalar log(Scalar x) { return x.make<mlir::math::LogOp>(); }
  friend Scalar log2(Scalar x) { return x.make<mlir::math::Log2Op>(); }
  friend Scalar log1p(Scalar x) { return x.make<mlir::math::Log1pOp>(); }
  friend Scalar sin(Scalar x) { return x.make<mlir::math::SinOp>(); }
  friend Scalar cos(Scalar x) { return x.make<mlir::math::CosOp>(); }
  friend Scalar tan(Scalar x) { return x.make<mlir::math::TanOp>(); }
  friend Scalar tanh(Scalar x) { return x.make<mlir::math::TanhOp>(); }
  friend Scalar erf(Scalar x) { return x.make<mlir::math::ErfOp>(); }
  friend Scalar pow(Scalar x, Scalar y) { return x.make<mlir::math::PowFOp>(y); }

private:
  Scalar wrap(mlir::Value value) const { return {*b, loc, value}; }
  template <typename Op, typename... More>
  Scalar make(More... more) const {
    return wrap(Op::create(*b, loc, v, more.v...));
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, Scalar y) const {
    return mlir::arith::CmpFOp::create(*b, loc, predicate, v, y.v);
  }

  mlir::OpBuilder *b;
  mlir::Location loc;
  mlir::Value v;
};

} // namespace yaglom::phi
