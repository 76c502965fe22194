// A few arithmetic operations on one float type, so that the expansions of math functions read like formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <bit>
#include <cstdint>
#include <tuple>
#include <utility>

namespace yaglom::compiler {

/// Gives each splat constant once a block: at the start of `block`, or, without one, where the builder stands.
class ConstantPool {
public:
  mlir::Value get(mlir::OpBuilder &builder, mlir::Location loc, mlir::Block *block, mlir::Type type,
                  mlir::TypedAttr value, uint64_t bits) {
    mlir::Value &slot = values[{block, type.getAsOpaquePointer(), bits}];
    if (slot)
      return slot;
    mlir::OpBuilder::InsertionGuard guard(builder);
    if (block)
      builder.setInsertionPointToStart(block);
    if (auto shaped = llvm::dyn_cast<mlir::ShapedType>(type))
      value = mlir::DenseElementsAttr::get(shaped, mlir::ArrayRef<mlir::Attribute>(value));
    slot = mlir::arith::ConstantOp::create(builder, loc, value);
    return slot;
  }

private:
  llvm::DenseMap<std::tuple<mlir::Block *, const void *, uint64_t>, mlir::Value> values;
};

/// Emits elementwise operations on `type`: float32 or float64, or a vector of them of any rank.
/// Whatever it emits stays as it is written: no fast-math flag is set, products and sums are fused where `fma` says so.
class MathEmitter {
public:
  using Value = mlir::Value;

  MathEmitter(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, ConstantPool &pool, mlir::Block *block)
      : builder(builder), loc(loc), pool(pool), block(block), type(type), element(mlir::getElementTypeOrSelf(type)),
        wide(element.isF64()) {
    mlir::Type integer = builder.getIntegerType(wide ? 64 : 32);
    auto vector = llvm::dyn_cast<mlir::VectorType>(type);
    integerType = vector ? mlir::Type(vector.clone(integer)) : integer;
  }

  /// The same builder on another element type of the same shape.
  MathEmitter as(mlir::Type otherElement) const {
    auto vector = llvm::dyn_cast<mlir::VectorType>(type);
    return {builder, loc, vector ? mlir::Type(vector.clone(otherElement)) : otherElement, pool, block};
  }

  bool isWide() const { return wide; }
  mlir::Type getType() const { return type; }
  /// Bits of the stored significand: 23 or 52.
  int mantissa() const { return wide ? 52 : 23; }
  /// The exponent field of 1: 127 or 1023.
  int bias() const { return wide ? 1023 : 127; }
  /// Adding it to y with |y| < 2^(mantissa - 2) rounds y to an integer, whose low bits are then those of the sum.
  double magic() const { return wide ? 0x1.8p52 : 0x1.8p23; }

  Value f(double value) const {
    auto attribute = mlir::FloatAttr::get(element, value);
    return pool.get(builder, loc, block, type, attribute, std::bit_cast<uint64_t>(value));
  }
  Value i(uint64_t bits) const {
    mlir::Type integer = mlir::getElementTypeOrSelf(integerType);
    auto attribute = mlir::IntegerAttr::get(integer, llvm::APInt(integer.getIntOrFloatBitWidth(), bits));
    return pool.get(builder, loc, block, integerType, attribute, bits);
  }

  Value add(Value a, Value b) const { return mlir::arith::AddFOp::create(builder, loc, a, b); }
  Value sub(Value a, Value b) const { return mlir::arith::SubFOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) const { return mlir::arith::MulFOp::create(builder, loc, a, b); }
  Value div(Value a, Value b) const { return mlir::arith::DivFOp::create(builder, loc, a, b); }
  Value neg(Value a) const { return mlir::arith::NegFOp::create(builder, loc, a); }
  Value fma(Value a, Value b, Value c) const { return mlir::math::FmaOp::create(builder, loc, a, b, c); }
  Value sqrt(Value a) const { return mlir::math::SqrtOp::create(builder, loc, a); }
  Value abs(Value a) const { return mlir::math::AbsFOp::create(builder, loc, a); }
  Value floor(Value a) const { return mlir::math::FloorOp::create(builder, loc, a); }
  Value roundEven(Value a) const { return mlir::math::RoundEvenOp::create(builder, loc, a); }
  Value copySign(Value magnitude, Value sign) const {
    return mlir::math::CopySignOp::create(builder, loc, magnitude, sign);
  }

  /// Ordered comparisons unless the name says otherwise: false if an operand is NaN.
  Value less(Value a, Value b) const { return compare(mlir::arith::CmpFPredicate::OLT, a, b); }
  Value lessEqual(Value a, Value b) const { return compare(mlir::arith::CmpFPredicate::OLE, a, b); }
  Value equal(Value a, Value b) const { return compare(mlir::arith::CmpFPredicate::OEQ, a, b); }
  Value notEqual(Value a, Value b) const { return compare(mlir::arith::CmpFPredicate::ONE, a, b); }
  Value lessOrNaN(Value a, Value b) const { return compare(mlir::arith::CmpFPredicate::ULT, a, b); }
  Value compare(mlir::arith::CmpFPredicate predicate, Value a, Value b) const {
    return mlir::arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) const {
    return mlir::arith::SelectOp::create(builder, loc, condition, a, b);
  }
  Value both(Value a, Value b) const { return mlir::arith::AndIOp::create(builder, loc, a, b); }
  /// a and not b, for conditions.
  Value butNot(Value a, Value b) const {
    mlir::Type boolean = b.getType();
    auto yes = builder.getIntegerAttr(builder.getI1Type(), 1);
    return both(a, bitXor(b, pool.get(builder, loc, block, boolean, yes, 1)));
  }
  /// Clamps that let NaN pass; the order of operands is the one that becomes a single min or max instruction.
  Value atMost(Value a, double limit) const {
    Value bound = f(limit);
    return select(compare(mlir::arith::CmpFPredicate::OGT, a, bound), bound, a);
  }
  Value atLeast(Value a, double limit) const {
    Value bound = f(limit);
    return select(compare(mlir::arith::CmpFPredicate::OLT, a, bound), bound, a);
  }
  Value clamp(Value a, double low, double high) const { return atMost(atLeast(a, low), high); }

  Value bitsOf(Value a) const { return mlir::arith::BitcastOp::create(builder, loc, integerType, a); }
  Value floatOf(Value a) const { return mlir::arith::BitcastOp::create(builder, loc, type, a); }
  Value shiftLeft(Value a, int count) const { return mlir::arith::ShLIOp::create(builder, loc, a, i(count)); }
  Value shiftRight(Value a, int count) const { return mlir::arith::ShRUIOp::create(builder, loc, a, i(count)); }
  Value bitAnd(Value a, Value b) const { return mlir::arith::AndIOp::create(builder, loc, a, b); }
  Value bitOr(Value a, Value b) const { return mlir::arith::OrIOp::create(builder, loc, a, b); }
  Value bitXor(Value a, Value b) const { return mlir::arith::XOrIOp::create(builder, loc, a, b); }
  Value addBits(Value a, Value b) const { return mlir::arith::AddIOp::create(builder, loc, a, b); }
  Value subBits(Value a, Value b) const { return mlir::arith::SubIOp::create(builder, loc, a, b); }
  Value isOdd(Value bits) const {
    return mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::ne, bitAnd(bits, i(1)), i(0));
  }

  Value extend(Value a) const { return mlir::arith::ExtFOp::create(builder, loc, type, a); }
  Value truncate(Value a) const { return mlir::arith::TruncFOp::create(builder, loc, type, a); }

  /// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
  Value polynomial(Value x, llvm::ArrayRef<double> c) const {
    Value sum = f(c.back());
    for (double coefficient : llvm::reverse(c.drop_back()))
      sum = fma(sum, x, f(coefficient));
    return sum;
  }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  ConstantPool &pool;
  mlir::Block *block;
  mlir::Type type, element, integerType;
  bool wide;
};

} // namespace yaglom::compiler
