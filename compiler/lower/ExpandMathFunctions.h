// The expansions of single math functions, used by ExpandMath.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/ExpandMathEmitter.h"

namespace yaglom::compiler {

/// The largest integer-valued exponent of any use; infinite exponents are brought down to it.
inline constexpr double kHighExponent = 0x1p100;

mlir::Value expandSin(const MathEmitter &e, mlir::Value x);
mlir::Value expandCos(const MathEmitter &e, mlir::Value x);
/// {sin x, cos x} by one range reduction.
std::pair<mlir::Value, mlir::Value> expandSinCos(const MathEmitter &e, mlir::Value x);
mlir::Value expandTan(const MathEmitter &e, mlir::Value x);
mlir::Value expandExp(const MathEmitter &e, mlir::Value x);
mlir::Value expandExp2(const MathEmitter &e, mlir::Value x);
mlir::Value expandExpm1(const MathEmitter &e, mlir::Value x);
mlir::Value expandLog(const MathEmitter &e, mlir::Value x);
mlir::Value expandLog2(const MathEmitter &e, mlir::Value x);
mlir::Value expandLog1p(const MathEmitter &e, mlir::Value x);
mlir::Value expandTanh(const MathEmitter &e, mlir::Value x);
mlir::Value expandErf(const MathEmitter &e, mlir::Value x);
mlir::Value expandPow(const MathEmitter &e, mlir::Value x, mlir::Value y);
mlir::Value expandRsqrt(const MathEmitter &e, mlir::Value x);
/// 2^(f - a), see emitExp2Scaled.
mlir::Value expandExp2Scaled(const MathEmitter &e, mlir::Value f, mlir::Value a);
/// x 2^n, see emitLdexp.
mlir::Value expandLdexp(const MathEmitter &e, mlir::Value x, mlir::Value n);

} // namespace yaglom::compiler
