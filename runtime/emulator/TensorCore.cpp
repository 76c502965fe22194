// How a tensor core multiplies: the rounding of its sums.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/TensorCore.h"

#include "runtime/emulator/Numbers.h"

#include <algorithm>
#include <charconv>

namespace yaglom::emulator {
namespace {

constexpr int kRows = 16, kColumns = 8, kLargestK = 16;
constexpr int kZero = -2000; ///< exponent of 0: below all others

int exponentOf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const int biased = bits >> 23 & 255;
  if (biased != 0)
    return biased - 127;
  const uint32_t fraction = bits & 0x7fffff;
  // Subnormal inputs are aligned by their leading bit.
  return fraction ? -118 - std::countl_zero(fraction) : kZero;
}

/// 2^exponent, for exponents of normal doubles.
double powerOfTwo(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52); }

/// Cut off towards zero; too large a value is infinite.
float truncate(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::fabs(static_cast<double>(nearest)) <= std::fabs(value) || std::fabs(value) >= 0x1p128)
    return nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(nearest) - 1);
}

struct Operands {
  alignas(64) double a[kRows][kLargestK];
  alignas(64) double b[kLargestK][kColumns];
  alignas(64) int exponentA[kRows][kLargestK];
  alignas(64) int exponentB[kLargestK][kColumns];
  bool special = false; ///< an infinity or NaN
};

void load(Operands &operands, int K, const float *A, const float *B) {
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < K; ++k) {
      const float value = A[i * K + k];
      operands.special |= !std::isfinite(value);
      operands.a[i][k] = value;
      operands.exponentA[i][k] = exponentOf(value);
    }
  for (int k = 0; k < K; ++k)
    for (int j = 0; j < kColumns; ++j) {
      const float value = B[k * kColumns + j];
      operands.special |= !std::isfinite(value);
      operands.b[k][j] = value;
      operands.exponentB[k][j] = exponentOf(value);
    }
}

/// One row of D: its blocks of `terms` products.
void multiplyRow(const Operands &operands, int row, int K, int terms, int fraction, float *sums) {
  for (int begin = 0; begin < K; begin += terms) {
    const int end = std::min(K, begin + terms);
    alignas(64) int largest[kColumns];
    for (int j = 0; j < kColumns; ++j)
      largest[j] = exponentOf(sums[j]);
    for (int k = begin; k < end; ++k)
      for (int j = 0; j < kColumns; ++j)
        largest[j] = std::max(largest[j], operands.exponentA[row][k] + operands.exponentB[k][j]);
    alignas(64) double scale[kColumns], sum[kColumns];
    for (int j = 0; j < kColumns; ++j) {
      largest[j] = std::max(largest[j], -400); // all terms are zero below
      scale[j] = powerOfTwo(fraction - largest[j]);
      sum[j] = std::trunc(sums[j] * scale[j]);
    }
    for (int k = begin; k < end; ++k)
      for (int j = 0; j < kColumns; ++j)
        sum[j] += std::trunc(operands.a[row][k] * operands.b[k][j] * scale[j]);
    for (int j = 0; j < kColumns; ++j)
      sums[j] = truncate(sum[j] * powerOfTwo(largest[j] - fraction));
  }
}

} // namespace

TensorCore TensorCore::of(std::string_view target) {
  int number = 0;
  if (target.starts_with("sm_"))
    std::from_chars(target.data() + 3, target.data() + target.size(), number);
  if (number >= 90)
    return {16, 25};
  if (number >= 80)
    return {8, 24};
  return {4, 23};
}

void multiply(const TensorCore &core, int terms, int K, const float *A, const float *B, const float *C, float *D) {
  Operands operands;
  load(operands, K, A, B);
  for (int i = 0; i < kRows * kColumns; ++i)
    operands.special |= !std::isfinite(C[i]);
  for (int row = 0; row < kRows; ++row) {
    float sums[kColumns];
    std::copy_n(C + row * kColumns, kColumns, sums);
    if (!operands.special)
      multiplyRow(operands, row, K, terms, core.fraction, sums);
    std::copy_n(sums, kColumns, D + row * kColumns);
  }
  if (!operands.special)
    return;
  // Rows and columns without infinities are computed as ever; the others are infinite or NaN by the plain sum.
  for (int row = 0; row < kRows; ++row)
    for (int j = 0; j < kColumns; ++j) {
      double plain = C[row * kColumns + j];
      for (int k = 0; k < K; ++k)
        plain += operands.a[row][k] * operands.b[k][j];
      if (!std::isfinite(plain)) {
        D[row * kColumns + j] = canonical(static_cast<float>(plain));
        continue;
      }
      Operands one = operands;
      for (int k = 0; k < K; ++k)
        for (int other = 0; other < kColumns; ++other) {
          one.b[k][other] = operands.b[k][j];
          one.exponentB[k][other] = operands.exponentB[k][j];
        }
      float sums[kColumns];
      std::fill_n(sums, kColumns, C[row * kColumns + j]);
      multiplyRow(one, row, K, terms, core.fraction, sums);
      D[row * kColumns + j] = sums[0];
    }
}

} // namespace yaglom::emulator
