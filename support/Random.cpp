// Philox 4x32-10 and the transform of its bits to normals; docs/random.md defines both once and for all.
// SPDX-License-Identifier: Apache-2.0
//
// Compiled with -ffp-contract=off: a contraction chosen by a compiler would change bits, so every fma is written.
#include "support/Random.h"

#include <bit>
#include <cmath>

namespace yaglom {
namespace {

constexpr uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
constexpr uint64_t join(uint32_t lowWord, uint32_t highWord) { return uint64_t{highWord} << 32 | lowWord; }

// ln 2 = kLn2High + kLn2Low to 106 bits.
constexpr double kLn2High = 0x1.62e42fefa39efp-1;
constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kTwoPi = 0x1.921fb54442d18p+2;

/// Horner's rule, highest coefficient first, one fma a step.
template <std::size_t count>
double horner(double x, const double (&coefficients)[count]) {
  double sum = coefficients[0];
  for (std::size_t i = 1; i < count; ++i)
    sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

/// log(x) for 2^-53 <= x <= 1 to about 1 ulp, also relative to the small result near 1.
double logarithm(double x) {
  // x = m 2^k with m in [sqrt(1/2), sqrt(2)): adding the distance to sqrt(1/2) makes the exponent field step there.
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr uint64_t kOne = 0x3ff0000000000000;
  const uint64_t bits = std::bit_cast<uint64_t>(x) + (kOne - kSqrtHalf);
  const double k = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  const double m = std::bit_cast<double>((bits & 0x000fffffffffffff) + kSqrtHalf);
  // log m = 2 atanh(s) = 2s + 2s^3 (1/3 + s^2/5 + ...), s = (m - 1)/(m + 1), s^2 < 0.0295; the rest is below 2^-58.
  static constexpr double kSeries[] = {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                                       2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3};
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  const double tail = s * square * horner(square, kSeries);
  return std::fma(k, kLn2High, std::fma(k, kLn2Low, tail) + 2 * s);
}

/// cos(2 pi n / 2^53) for 0 <= n < 2^53.
double cosineOfTurn(int64_t n) {
  // The nearest quarter turn is taken off exactly, in integers; what remains is at most an eighth of a turn.
  const int64_t quarter = (n + (int64_t{1} << 50)) >> 51;
  const double x = static_cast<double>(n - (quarter << 51)) * 0x1p-53 * kTwoPi;
  const double square = x * x;
  static constexpr double kSine[] = {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                                     1.0 / 362880,          -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
  static constexpr double kCosine[] = {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                       1.0 / 40320,          -1.0 / 720,         1.0 / 24,        -0.5};
  const double sine = std::fma(x * square, horner(square, kSine), x);
  const double cosine = std::fma(square, horner(square, kCosine), 1.0);
  const double magnitude = (quarter & 1) ? sine : cosine;
  return ((quarter + 1) & 2) ? -magnitude : magnitude; // cos x, -sin x, -cos x, sin x
}

} // namespace

PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

NormalStream::NormalStream(uint64_t seed, std::string_view name, uint64_t head) {
  const uint64_t hash = fnv1a(name);
  const PhiloxBlock stream = philox({low(hash), high(hash), low(head), high(head)}, {low(seed), high(seed)});
  key = {stream[0], stream[1]};
  tag = {stream[2], stream[3]};
}

double NormalStream::operator()(uint64_t index) const {
  const PhiloxBlock block = philox({low(index), high(index), tag[0], tag[1]}, key);
  return normalFromBits(join(block[0], block[1]), join(block[2], block[3]));
}

double normalFromBits(uint64_t radiusBits, uint64_t angleBits) {
  // Box and Muller (1958), the cosine half. The radius takes u in (0, 1], so the logarithm is finite.
  const double u = static_cast<double>((radiusBits >> 11) + 1) * 0x1p-53;
  const double radius = std::sqrt(-2 * logarithm(u));
  return radius * cosineOfTurn(static_cast<int64_t>(angleBits >> 11));
}

} // namespace yaglom
