// A float64 number with a 64-bit exponent: the formulas define real numbers, and exp(1443) is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace yaglom::reference {

/// The number mantissa * 2^(512 block). Canonical: a finite mantissa other than 0 has 2^-256 <= |mantissa| < 2^256; zero,
/// infinity and NaN have block 0. Every number between 2^-256 and 2^256 has block 0, and there the arithmetic is that of
/// double, bit for bit.
class Wide {
public:
  Wide() = default;
  Wide(double value) : mantissa(value) { normalize(); }

  double toDouble() const { return block == 0 ? mantissa : scaled(); }

  bool isZero() const { return mantissa == 0; }
  bool isNegative() const { return mantissa < 0; }
  bool isNan() const { return mantissa != mantissa; }

  friend Wide operator-(Wide a) { return raw(-a.mantissa, a.block); }
  friend Wide operator+(Wide a, Wide b) {
    return a.block == b.block ? Wide(a.mantissa + b.mantissa, a.block) : addAligned(a, b);
  }
  friend Wide operator-(Wide a, Wide b) { return a + -b; }
  friend Wide operator*(Wide a, Wide b) { return Wide(a.mantissa * b.mantissa, a.block + b.block); }
  friend Wide operator/(Wide a, Wide b) { return Wide(a.mantissa / b.mantissa, a.block - b.block); }
  Wide &operator+=(Wide b) { return *this = *this + b; }
  Wide &operator*=(Wide b) { return *this = *this * b; }

  friend bool operator<(Wide a, Wide b);
  friend bool operator==(Wide a, Wide b) { return a.mantissa == b.mantissa && a.block == b.block; }
  friend bool operator>(Wide a, Wide b) { return b < a; }
  friend bool operator<=(Wide a, Wide b) { return a < b || a == b; }
  friend bool operator>=(Wide a, Wide b) { return b <= a; }

  friend Wide exp(Wide x);
  friend Wide exp2(Wide x);
  friend Wide log(Wide x);
  friend Wide sqrt(Wide x);
  friend Wide abs(Wide x) { return raw(std::fabs(x.mantissa), x.block); }
  /// sum_i x_i y_i.
  friend Wide dot(const Wide *x, const Wide *y, int64_t count);
  /// sum_i += factor * x_i.
  friend void addScaled(Wide *sums, Wide factor, const Wide *x, int64_t count);
  /// x^p with IEEE's pow at special values: 0^0 = 1, and NaN for x < 0 with p no whole number.
  friend Wide pow(Wide x, Wide p);

private:
  Wide(double mantissa, int64_t block) : mantissa(mantissa), block(block) { normalize(); }
  static Wide raw(double mantissa, int64_t block) {
    Wide result;
    result.mantissa = mantissa;
    result.block = block;
    return result;
  }
  void normalize() {
    const double size = std::fabs(mantissa);
    if (!(size >= 0x1p-256 && size < 0x1p256))
      renormalize();
  }
  void renormalize();
  double scaled() const;
  static Wide addAligned(Wide a, Wide b);

  double mantissa = 0;
  int64_t block = 0;
};

Wide dot(const Wide *x, const Wide *y, int64_t count);
void addScaled(Wide *sums, Wide factor, const Wide *x, int64_t count);

} // namespace yaglom::reference
