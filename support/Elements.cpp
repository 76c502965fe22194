// The 16-bit formats in terms of doubles, which hold all their numbers.
// SPDX-License-Identifier: Apache-2.0
#include "support/Elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace yaglom {
namespace {

/// A binary format of 16 bits: sign, exponent, fraction.
struct Half {
  int fractionBits, bias;

  int largestExponent() const { return (1 << (15 - fractionBits)) - 1; }

  double decode(uint16_t bits) const {
    const int exponent = (bits & 0x7fff) >> fractionBits;
    const int fraction = bits & ((1 << fractionBits) - 1);
    double magnitude;
    if (exponent == largestExponent())
      magnitude = fraction ? std::nan("") : HUGE_VAL;
    else if (exponent == 0)
      magnitude = std::ldexp(fraction, 1 - bias - fractionBits);
    else
      magnitude = std::ldexp((1 << fractionBits) + fraction, exponent - bias - fractionBits);
    return bits & 0x8000 ? -magnitude : magnitude;
  }

  uint16_t encode(double value) const {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const auto infinity = static_cast<uint16_t>(largestExponent() << fractionBits);
    if (std::isnan(value))
      return sign | infinity | static_cast<uint16_t>(1 << (fractionBits - 1));
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude))
      return sign | infinity;
    const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
    // In units of the last place; the current rounding mode is to nearest even, as everywhere in this library.
    const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, fractionBits - exponent)));
    const int64_t bits = units + (static_cast<int64_t>(exponent + bias - 1) << fractionBits);
    return sign | static_cast<uint16_t>(std::min<int64_t>(bits, infinity));
  }
};

constexpr Half kFloat16{10, 15}, kBFloat16{7, 127};

template <typename T>
T readAs(const void *address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <typename T>
void writeAs(void *address, T value) {
  std::memcpy(address, &value, sizeof value);
}

} // namespace

double loadElement(DType type, const void *address) {
  switch (type) {
  case DType::f32:
    return readAs<float>(address);
  case DType::f64:
    return readAs<double>(address);
  case DType::f16:
    return kFloat16.decode(readAs<uint16_t>(address));
  case DType::bf16:
    return std::bit_cast<float>(uint32_t{readAs<uint16_t>(address)} << 16);
  }
  return 0;
}

void storeElement(DType type, void *address, double value) {
  switch (type) {
  case DType::f32:
    return writeAs(address, static_cast<float>(value));
  case DType::f64:
    return writeAs(address, value);
  case DType::f16:
    return writeAs(address, kFloat16.encode(value));
  case DType::bf16:
    return writeAs(address, kBFloat16.encode(value));
  }
}

} // namespace yaglom
