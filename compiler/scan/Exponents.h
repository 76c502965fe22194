// Splits features into exponentials and the rest: what running maxima are carried for (language.md, N1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Builders.h"

namespace yaglom::compiler {

/// value = mantissa * 2^exponent. A null exponent is 0. An exponent is a scalar common to all entries, or has the
/// value's shape.
struct Split {
  mlir::Value exponent;
  mlir::Value mantissa;
};

/// Takes every exponential factor out of `value`, a vector of features or a scalar. Sums are left as written.
Split splitExponent(mlir::OpBuilder &builder, mlir::Value value);

/// value = factor * rest, with `factor` a scalar (null when there is none).
struct Factored {
  mlir::Value factor;
  mlir::Value rest;
};

/// Takes the scalar factors out of a vector.
Factored splitScalarFactor(mlir::OpBuilder &builder, mlir::Value value);

} // namespace yaglom::compiler
