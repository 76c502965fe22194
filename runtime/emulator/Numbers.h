// Floating-point formats of PTX as numbers: half, bfloat16, TF32, roundings and canonical NaNs; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <immintrin.h>

namespace yaglom::emulator {

enum class Rounding : uint8_t { Nearest, Zero, Down, Up, NearestAway };

struct Half {
  uint16_t bits = 0;
};
struct Bfloat {
  uint16_t bits = 0;
};
/// Two values in a word, the first in the low half.
template <class T>
struct Pair {
  T low, high;
};

inline constexpr uint32_t kNaN32 = 0x7fffffffu; ///< what every arithmetic instruction makes of a NaN
inline constexpr uint16_t kNaN16 = 0x7fffu;
inline constexpr uint64_t kNaN64 = 0x7ff8000000000000ull;

inline float toFloat(Half value) { return _cvtsh_ss(value.bits); }
inline float toFloat(Bfloat value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
inline float toFloat(float value) { return value; }
inline double toDouble(Half value) { return toFloat(value); }
inline double toDouble(Bfloat value) { return toFloat(value); }

inline float canonical(float value) { return value == value ? value : std::bit_cast<float>(kNaN32); }
inline double canonical(double value) { return value == value ? value : std::bit_cast<double>(kNaN64); }

inline Half halfOf(float value) {
  const auto bits = static_cast<uint16_t>(_cvtss_sh(value, 0));
  return Half{value == value ? bits : kNaN16};
}
inline Bfloat bfloatOf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto rounded = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  return Bfloat{value == value ? rounded : kNaN16};
}

template <class T>
T roundTo(float value); // to nearest even
template <>
inline Half roundTo<Half>(float value) {
  return halfOf(value);
}
template <>
inline Bfloat roundTo<Bfloat>(float value) {
  return bfloatOf(value);
}

/// Zero with the sign of a subnormal number; other values as they are.
inline float flush(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7f800000u) ? bits : bits & 0x80000000u);
}

/// [0, 1]; NaN becomes +0 (PTX ISA, .sat).
inline float saturate(float value) { return value > 0 ? (value < 1 ? value : 1.0f) : 0.0f; }
inline double saturate(double value) { return value > 0 ? (value < 1 ? value : 1.0) : 0.0; }

/// A binary format with `fraction` bits after the leading one and exponents from `minimal` (of normal numbers) to `maximal`.
struct Format {
  int fraction;
  int minimal;
  int maximal;
};
inline constexpr Format kHalf{10, -14, 15};
inline constexpr Format kBfloat{7, -126, 127};
inline constexpr Format kTf32{10, -126, 127};
inline constexpr Format kSingle{23, -126, 127};

/// To a whole number.
double roundInteger(double value, Rounding rounding);

/// `value` rounded to the format, as a double. Overflow gives infinity, or the largest number where the direction says so.
/// `value` may be rounded to odd: any format here has at least two bits less than a double.
double roundToFormat(double value, Format format, Rounding rounding);

/// a + b, a * b + c, a / b and sqrt(a) rounded to odd: a later rounding to fewer bits is then as if from the exact value
/// (Boldo, Melquiond 2008). Arguments are exact in fewer bits: floats, and in addOdd a product of floats.
double addOdd(double a, double b);
double divideOdd(float a, float b);
double squareRootOdd(float a);
/// An integer rounded to odd.
double toDoubleOdd(int64_t value);
double toDoubleOdd(uint64_t value);

} // namespace yaglom::emulator
