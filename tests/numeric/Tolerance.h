// Tolerances of the numeric tests: those of the one table, and what follows from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Tolerance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace yaglom::tests {

using yaglom::roundoff, yaglom::tolerance;

/// tolerance() where features are exp(f) with |f| up to `exponent`. f is a sum whose terms are of that size, so it has an
/// error of some roundoffs of it; exp makes that absolute error a relative one of the feature, once for q and once for k.
inline double tolerance(DType type, int64_t terms, double exponent) {
  return tolerance(type, terms) + 8 * exponent * roundoff(type);
}

/// What may be lost where inputs and products are rounded to 16 bits: what the table says, or a small multiple of what rounding
/// the tensors alone changes in exact arithmetic, where an attention is that sensitive.
inline double halfBound(DType dtype, double changeByRounding) {
  return std::max(tolerance(dtype, 1), 8 * changeByRounding);
}

/// A parameter's gradient sums terms of the size of grad.V over tokens and features. Terms that cancel leave their rounding, as
/// that of sigma, which is 0 in exact arithmetic.
inline double sumBound(DType dtype, int64_t rows) {
  constexpr int64_t kFeatures = 32;
  return roundoff(dtype) * std::sqrt(static_cast<double>(rows * kFeatures));
}

} // namespace yaglom::tests
