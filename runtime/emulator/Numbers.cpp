// Roundings to the formats of PTX.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Numbers.h"

namespace yaglom::emulator {
namespace {

/// `sum` with its last bit set when `error`, the exact value minus `sum`, is not zero; `sum` is moved towards zero first.
double makeOdd(double sum, double error) {
  if (error == 0 || !std::isfinite(sum) || error != error)
    return sum;
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  if ((sum > 0) != (error > 0) && sum != 0)
    --bits; // the exact value is nearer to zero
  return std::bit_cast<double>(bits | 1);
}

} // namespace

double roundInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return std::nearbyint(value);
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  case Rounding::NearestAway:
    return std::round(value);
  }
  return value;
}

double roundToFormat(double value, Format format, Rounding rounding) {
  if (!std::isfinite(value) || value == 0)
    return value;
  const int exponent = std::max(std::ilogb(value), format.minimal);
  const int shift = format.fraction - exponent;
  const double rounded = std::ldexp(roundInteger(std::ldexp(value, shift), rounding), -shift);
  const double largest = std::ldexp(2 - std::ldexp(1.0, -format.fraction), format.maximal);
  if (std::fabs(rounded) <= largest)
    return std::copysign(rounded, value);
  const bool stays = rounding == Rounding::Zero || (rounding == Rounding::Down && value > 0) ||
                     (rounding == Rounding::Up && value < 0);
  return std::copysign(stays ? largest : HUGE_VAL, value);
}

double addOdd(double a, double b) {
  const double sum = a + b;
  const double virtualB = sum - a; // TwoSum (Knuth)
  const double error = (a - (sum - virtualB)) + (b - virtualB);
  return makeOdd(sum, error);
}

double divideOdd(float a, float b) {
  const double quotient = static_cast<double>(a) / b;
  if (!std::isfinite(quotient) || b == 0 || std::isinf(b))
    return quotient;
  const double rest = std::fma(-quotient, b, a);
  return makeOdd(quotient, b > 0 ? rest : -rest);
}

double squareRootOdd(float a) {
  const double root = std::sqrt(static_cast<double>(a));
  if (!std::isfinite(root) || root == 0)
    return root;
  return makeOdd(root, std::fma(-root, root, static_cast<double>(a)));
}

double toDoubleOdd(uint64_t value) {
  if (value >> 53 == 0)
    return static_cast<double>(value);
  return static_cast<double>((value >> 11 | (value & 0x7ff ? 1 : 0))) * 2048.0;
}

double toDoubleOdd(int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return value < 0 ? -toDoubleOdd(magnitude) : toDoubleOdd(magnitude);
}

} // namespace yaglom::emulator
