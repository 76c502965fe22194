// The rare paths of Wide: numbers outside 2^-256 .. 2^256.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Wide.h"

#include <algorithm>

namespace yaglom::reference {
namespace {

constexpr double kUp = 0x1p512;
constexpr double kDown = 0x1p-512;
// 512 ln 2 in two parts; the first has 33 bits, so its product with a block below 2^20 is exact.
constexpr double kBlockLogHigh = 0x1.62e42fefp+8;
constexpr double kBlockLogLow = 0x1.473de6af278edp-25;

/// Beyond this many blocks a number is taken as infinity or zero; exponents then still add without overflow.
constexpr int64_t kMaxBlock = int64_t{1} << 52;

} // namespace

void Wide::renormalize() {
  if (mantissa == 0 || !std::isfinite(mantissa)) {
    block = 0;
    return;
  }
  // A product of two mantissas lies in 2^-512 .. 2^512, a double from outside in 2^-1074 .. 2^1024: three steps at most.
  while (std::fabs(mantissa) >= 0x1p256) {
    mantissa *= kDown;
    ++block;
  }
  while (std::fabs(mantissa) < 0x1p-256) {
    mantissa *= kUp;
    --block;
  }
  if (block > kMaxBlock)
    *this = raw(std::copysign(HUGE_VAL, mantissa), 0);
  else if (block < -kMaxBlock)
    *this = raw(std::copysign(0.0, mantissa), 0);
}

double Wide::scaled() const {
  const int64_t exponent = std::clamp<int64_t>(block, -8, 8) * 512;
  return std::ldexp(mantissa, static_cast<int>(exponent));
}

Wide Wide::addAligned(Wide a, Wide b) {
  if (a.isZero() || !std::isfinite(b.mantissa))
    return std::isfinite(a.mantissa) ? b : Wide(a.mantissa + b.mantissa);
  if (b.isZero() || !std::isfinite(a.mantissa))
    return a;
  if (a.block < b.block)
    std::swap(a, b);
  // Two blocks apart the smaller one is below 2^-512 of the larger.
  return a.block - b.block == 1 ? Wide(a.mantissa + b.mantissa * kDown, a.block) : a;
}

bool operator<(Wide a, Wide b) {
  if (a.block == b.block)
    return a.mantissa < b.mantissa;
  if (a.isNan() || b.isNan())
    return false;
  const int signA = (a.mantissa > 0) - (a.mantissa < 0);
  const int signB = (b.mantissa > 0) - (b.mantissa < 0);
  if (signA != signB || signA == 0)
    return signA < signB;
  if (std::isinf(a.mantissa) || std::isinf(b.mantissa))
    return a.toDouble() < b.toDouble() || (std::isinf(b.mantissa) ? signB > 0 : signA < 0);
  return signA > 0 ? a.block < b.block : a.block > b.block;
}

Wide exp(Wide x) {
  const double value = x.toDouble();
  if (std::fabs(value) < 177 || !(std::fabs(value) < 1e15)) // the second also catches NaN
    return std::exp(value);
  const double blocks = std::nearbyint(value / (kBlockLogHigh + kBlockLogLow));
  const double rest = std::fma(-blocks, kBlockLogLow, std::fma(-blocks, kBlockLogHigh, value));
  return Wide(std::exp(rest), static_cast<int64_t>(blocks));
}

Wide exp2(Wide x) {
  const double value = x.toDouble();
  if (!(std::fabs(value) < 1e15))
    return std::exp2(value);
  const double blocks = std::nearbyint(value / 512);
  return Wide(std::exp2(value - 512 * blocks), static_cast<int64_t>(blocks));
}

Wide log(Wide x) {
  const double blocks = static_cast<double>(x.block);
  if (x.block == 0)
    return std::log(x.mantissa);
  return std::fma(blocks, kBlockLogHigh, std::fma(blocks, kBlockLogLow, std::log(x.mantissa)));
}

Wide sqrt(Wide x) {
  if (x.block % 2 == 0)
    return Wide(std::sqrt(x.mantissa), x.block / 2);
  return Wide(std::sqrt(x.mantissa * kUp), (x.block - 1) / 2);
}

Wide dot(const Wide *x, const Wide *y, int64_t count) {
  // Products of canonical mantissas cannot leave the range of double, so ordinary numbers need no care on the way.
  double sums[4] = {};
  int64_t blocks = 0;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (int64_t lane = 0; lane < 4; ++lane) {
      sums[lane] += x[i + lane].mantissa * y[i + lane].mantissa;
      blocks |= x[i + lane].block | y[i + lane].block;
    }
  for (; i < count; ++i) {
    sums[0] += x[i].mantissa * y[i].mantissa;
    blocks |= x[i].block | y[i].block;
  }
  if (blocks == 0)
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  Wide sum;
  for (i = 0; i < count; ++i)
    sum += x[i] * y[i];
  return sum;
}

void addScaled(Wide *sums, Wide factor, const Wide *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if ((sums[i].block | factor.block | x[i].block) == 0)
      sums[i] = sums[i].mantissa + factor.mantissa * x[i].mantissa;
    else
      sums[i] += factor * x[i];
}

Wide pow(Wide x, Wide p) {
  const double exponent = p.toDouble();
  if (x.isZero() || !std::isfinite(x.mantissa) || !std::isfinite(exponent) || exponent == 0)
    return std::pow(x.toDouble(), exponent);
  if (x.isNegative() && exponent != std::floor(exponent))
    return std::nan("");
  if (x.block == 0) {
    const double plain = std::pow(x.mantissa, exponent);
    if (std::isnormal(plain))
      return plain;
  }
  const Wide magnitude = exp(p * log(abs(x)));
  return x.isNegative() && std::fabs(std::fmod(exponent, 2)) == 1 ? -magnitude : magnitude;
}

} // namespace yaglom::reference
