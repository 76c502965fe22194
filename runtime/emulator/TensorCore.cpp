// How a tensor core multiplies: the rounding of its sums.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/TensorCore.h"

#include "runtime/emulator/Numbers.h"

#include <algorithm>
#include <charconv>

namespace yaglom::emulator {
namespace {

constexpr int kRows = 16, kColumns = 8, kLargestK = 16;

/// As a double a subnormal float is a normal number, aligned by its leading bit; zero lies far below all others.
int exponentOf(float value) {
  return static_cast<int>(std::bit_cast<uint64_t>(static_cast<double>(value)) >> 52 & 0x7ff) - 1023;
}

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
  int largest = -1023;
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < K; ++k) {
      const float value = A[i * K + k];
      operands.a[i][k] = value;
      operands.exponentA[i][k] = exponentOf(value);
      largest = std::max(largest, operands.exponentA[i][k]);
    }
  for (int k = 0; k < K; ++k)
    for (int j = 0; j < kColumns; ++j) {
      const float value = B[k * kColumns + j];
      operands.b[k][j] = value;
      operands.exponentB[k][j] = exponentOf(value);
      largest = std::max(largest, operands.exponentB[k][j]);
    }
  operands.special = largest > 127;
}

/// Four doubles: 2^exponent of the lower or upper four of eight exponents of normal doubles.
__m256d powersOfTwo(__m128i exponents) {
  const __m256i biased = _mm256_cvtepi32_epi64(_mm_add_epi32(exponents, _mm_set1_epi32(1023)));
  return _mm256_castsi256_pd(_mm256_slli_epi64(biased, 52));
}

__m256d cutOff(__m256d value) { return _mm256_round_pd(value, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }

/// One row of D: its blocks of `terms` products, all eight columns at a time.
void multiplyRow(const Operands &operands, int row, int K, int terms, int fraction, float *sums) {
  for (int begin = 0; begin < K; begin += terms) {
    const int end = std::min(K, begin + terms);
    alignas(64) int exponents[kColumns];
    for (int j = 0; j < kColumns; ++j)
      exponents[j] = exponentOf(sums[j]);
    __m256i largest = _mm256_load_si256(reinterpret_cast<const __m256i *>(exponents));
    for (int k = begin; k < end; ++k) {
      const __m256i ofB = _mm256_load_si256(reinterpret_cast<const __m256i *>(operands.exponentB[k]));
      largest = _mm256_max_epi32(largest, _mm256_add_epi32(_mm256_set1_epi32(operands.exponentA[row][k]), ofB));
    }
    largest = _mm256_max_epi32(largest, _mm256_set1_epi32(-400)); // all terms are zero below
    const __m256i shift = _mm256_sub_epi32(_mm256_set1_epi32(fraction), largest);
    const __m256i back = _mm256_sub_epi32(_mm256_setzero_si256(), shift);
    alignas(64) double made[kColumns];
    for (int half = 0; half < 2; ++half) {
      const auto part = [half](__m256i eight) {
        return half ? _mm256_extracti128_si256(eight, 1) : _mm256_castsi256_si128(eight);
      };
      const __m256d scale = powersOfTwo(part(shift));
      __m256d sum = cutOff(_mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(sums + 4 * half)), scale));
      for (int k = begin; k < end; ++k) {
        const __m256d product =
            _mm256_mul_pd(_mm256_set1_pd(operands.a[row][k]), _mm256_load_pd(operands.b[k] + 4 * half));
        sum = _mm256_add_pd(sum, cutOff(_mm256_mul_pd(product, scale)));
      }
      _mm256_store_pd(made + 4 * half, _mm256_mul_pd(sum, powersOfTwo(part(back))));
    }
    for (int j = 0; j < kColumns; ++j)
      sums[j] = truncate(made[j]);
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
