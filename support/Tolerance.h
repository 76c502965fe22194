// The one table of tolerances: by element type and length of the longest sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

#include <cstdint>

namespace yaglom {

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

} // namespace yaglom
