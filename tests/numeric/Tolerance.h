// The one table of tolerances of the numeric tests: by element type and length of the longest sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace yaglom::tests {

/// Half the distance of two neighbours near 1.
inline double roundoff(DType type) {
  switch (type) {
  case DType::f32:
    return 0x1p-24;
  case DType::f64:
    return 0x1p-53;
  case DType::f16:
    return 0x1p-11;
  case DType::bf16:
    return 0x1p-8;
  }
  return 0;
}

/// Largest relative rms error (language.md section 6) of a well-conditioned attention over `terms` tokens.
inline double tolerance(DType type, int64_t terms) {
  struct Row {
    int64_t terms;
    double f32, f64, f16, bf16; ///< states and sums of the last two are float32
  };
  constexpr Row kTable[] = {
      {256, 5e-6, 1e-12, 1e-3, 8e-3},
      {10'000, 1e-5, 1e-11, 1e-3, 8e-3},
      {INT64_MAX, 2e-5, 1e-10, 1e-3, 8e-3},
  };
  const Row *row = kTable;
  while (terms > row->terms)
    ++row;
  return type == DType::f32 ? row->f32 : type == DType::f64 ? row->f64 : type == DType::f16 ? row->f16 : row->bf16;
}

/// The same where features are exp(f) with |f| up to `exponent`. f is a sum whose terms are of that size, so it has an
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
