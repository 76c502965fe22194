// Math functions without a library: every transcendental operation becomes arithmetic on vectors of any shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

#include <memory>

namespace mlir {
class Operation;
class Pass;
} // namespace mlir

namespace yaglom::compiler {

/// Replaces, below `root`, the math dialect's sin, cos, sincos, tan, exp, exp2, expm1, log, log2, log1p, tanh, erf, powf
/// and rsqrt on float32 and float64, scalars and vectors of any rank, by arithmetic and single instructions (fma, sqrt,
/// roundeven, floor, absf, copysign). sin and cos of one value in one block share their range reduction.
///
/// The arith and math dialects must be loaded, here and for the builder functions below.
///
/// There are no branches, no calls and no fast-math flags. Infinities, NaN and subnormal numbers give what IEEE 754 asks;
/// only sin(-0) and tan(-0) lose the sign. Constants are placed once, at the start of the enclosing function.
/// tests/numeric/ExpandMath.cpp states the error of each function.
void expandMath(mlir::Operation *root);

/// The pass around expandMath: `phi-expand-math`.
std::unique_ptr<mlir::Pass> createExpandMathPass();

/// The least `a` of emitExp2Scaled: next to it or to any larger one, exponents up to twice this give an exact 0.
inline constexpr double lowExponent(bool isFloat64) { return isFloat64 ? -0x1p51 : -0x1p23; }

/// 2^(f - a) for an integer-valued a >= lowExponent: 2^(f - n) 2^(n - a) with n = roundeven(f). The second factor is exact:
/// for one f the significand is the same whatever a is, while n - a is the exponent of a normal number; the result is 0 below
/// and infinite above. An f below 2 lowExponent, -infinity too, counts as 2 lowExponent, so that it gives 0. NaN if an
/// operand is NaN. `f` and `a` are of one type: float32 or float64, or vectors of them.
mlir::Value emitExp2Scaled(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value f, mlir::Value a);

/// x 2^n for an integer-valued n of any size, infinities included: exact unless the result overflows or is subnormal. 0, inf
/// and NaN stay as they are, whatever n is; a NaN in n counts as some integer.
mlir::Value emitLdexp(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, mlir::Value n);

} // namespace yaglom::compiler
