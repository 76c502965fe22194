// How a tensor core multiplies: the rounding of its sums; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace yaglom::emulator {

/// The internal arithmetic of one generation.
///
/// Products are exact. A block of `terms` products and the accumulator are aligned to the largest of their exponents (of a
/// product: the sum of its factors' exponents) and cut off towards zero `fraction` bits below it; the sum of these is exact, and
/// is cut off towards zero to float32. Blocks along k follow one another. An f16 result is rounded to nearest even at the end.
/// Found by experiment: M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Comput.
/// Sci. 7:e330 (2021) for V100, T4 and A100; F. A. Khattak, M. Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv:2512.07004
/// and P. Xie et al., "MMA-Sim", arXiv:2511.10909 (both 2025) up to Hopper and Blackwell: 4 terms of 23 fraction bits on V100, 8 of 24
/// on A100 and Ada, 16 of 25 on H100; half as many terms for TF32. Not compared with hardware by us.
struct TensorCore {
  int terms = 16; ///< of 16-bit factors; TF32 has half as many
  int fraction = 25;

  /// By the target of the PTX text ("sm_80").
  static TensorCore of(std::string_view target);
};

/// D = A B + C for A of 16 x K, B of K x 8, row-major floats that hold f16, bf16 or tf32 values exactly; C and D of 16 x 8.
void multiply(const TensorCore &core, int terms, int K, const float *A, const float *B, const float *C, float *D);

} // namespace yaglom::emulator
