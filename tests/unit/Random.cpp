// The generator of docs/random.md: published vectors, our own vectors, and the statistics of the normals.
// SPDX-License-Identifier: Apache-2.0
#include "support/Random.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace yaglom;

namespace {

std::vector<double> sample(const NormalStream &stream, uint64_t count) {
  std::vector<double> values(count);
  for (uint64_t i = 0; i < count; ++i)
    values[i] = stream(i);
  return values;
}

double correlation(const std::vector<double> &x, const std::vector<double> &y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += x[i] * y[i];
  return sum / static_cast<double>(x.size());
}

/// Largest distance of the empirical distribution from the normal one, times sqrt(count).
double kolmogorovSmirnov(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = std::erfc(-values[i] / std::sqrt(2.0)) / 2;
    const double below = static_cast<double>(i) / count;
    distance = std::max({distance, expected - below, below + 1 / count - expected});
  }
  return distance * std::sqrt(count);
}

constexpr uint64_t kCount = 200000;
const double kFiveSigma = 5 / std::sqrt(static_cast<double>(kCount));

} // namespace

TEST_CASE("Philox reproduces the known answers of Random123") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("FNV-1a reproduces its published values") {
  CHECK(fnv1a("") == 0xcbf29ce484222325);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8c);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8);
}

TEST_CASE("the test vectors of docs/random.md hold to the last bit") {
  CHECK(fnv1a("fska.W1.noise") == 0xabf406dc297df4c4);
  CHECK(NormalStream(0u, "", 0u)(0u) == -0x1.0e8ea7b7b4475p+0);
  CHECK(NormalStream(7u, "fska.W1.noise", 0u)(0u) == -0x1.0af467a56486dp-5);
  CHECK(NormalStream(7u, "fska.W1.noise", 0u)(1u) == -0x1.2388763386579p+0);
  CHECK(NormalStream(7u, "fska.W1.noise", 0u)(4294967296u) == 0x1.dbecffac29366p+0);
  CHECK(NormalStream(7u, "fska.W1.noise", 3u)(0u) == 0x1.04fac84fae03bp-1);
  CHECK(NormalStream(18446744073709551615u, "flow.0.scale.W0", 18446744073709551615u)(18446744073709551615u) ==
        -0x1.5a0f43d6b3444p+0);
  CHECK(NormalStream(42u, "flexformer_n.W1", 1u)(4095u) == 0x1.769178961e898p+1);
  CHECK(normalFromBits(0, 0) == 0x1.124b2800eda48p+3);
  CHECK(normalFromBits(0xfedcba9876543210, 0x0123456789abcdef) == 0x1.82743771e2249p-4);
}

TEST_CASE("normals agree with the formula in extended precision") {
  for (uint32_t i = 0; i < 20000; ++i) {
    const PhiloxBlock block = philox({i, 0, 0, 0}, {1, 2});
    // Also radii near 0: u close to 1 is where a careless logarithm loses all digits.
    const uint64_t a = (uint64_t{block[1]} << 32 | block[0]) | (i % 3 ? 0 : ~uint64_t{0} << (12 + i % 50));
    const uint64_t b = uint64_t{block[3]} << 32 | block[2];
    const long double u = (static_cast<long double>(a >> 11) + 1) * 0x1p-53L;
    const long double angle = static_cast<long double>(b >> 11) * 0x1p-53L * 6.283185307179586476925286766559L;
    const long double radius = std::sqrt(-2 * std::log(u));
    CHECK(std::fabs(static_cast<double>(normalFromBits(a, b) - radius * std::cos(angle))) <=
          4e-16 * static_cast<double>(radius));
  }
}

TEST_CASE("the extreme bits give finite normals") {
  CHECK(normalFromBits(0, 0) == Approx(std::sqrt(2 * 53 * std::log(2.0))).epsilon(1e-15));
  CHECK(normalFromBits(~uint64_t{0}, 0) == 0);
  CHECK(normalFromBits(0, uint64_t{1} << 63) == -normalFromBits(0, 0));
  CHECK(normalFromBits(0, uint64_t{1} << 62) == 0);
  CHECK(std::isfinite(normalFromBits(0, ~uint64_t{0})));
}

TEST_CASE("normals have the moments of the normal distribution") {
  const std::vector<double> values = sample(NormalStream(1, "f.W", 0), kCount);
  double moments[5] = {};
  for (double z : values)
    for (int power = 1; power <= 4; ++power)
      moments[power] += std::pow(z, power) / static_cast<double>(kCount);
  CHECK(std::fabs(moments[1]) < kFiveSigma);
  CHECK(std::fabs(moments[2] - 1) < kFiveSigma * std::sqrt(2.0));
  CHECK(std::fabs(moments[3]) < kFiveSigma * std::sqrt(15.0));
  CHECK(std::fabs(moments[4] - 3) < kFiveSigma * std::sqrt(96.0));
}

TEST_CASE("normals pass Kolmogorov and Smirnov's test") {
  // 1.95 is the 0.1 % point of the limiting distribution.
  for (uint64_t head = 0; head < 4; ++head)
    CHECK(kolmogorovSmirnov(sample(NormalStream(3, "f.W", head), kCount)) < 1.95);
}

TEST_CASE("seeds, names, heads and neighbours are independent") {
  const std::vector<double> base = sample(NormalStream(1, "f.W", 0), kCount + 1);
  const std::vector<double> first(base.begin(), base.end() - 1);
  CHECK(std::fabs(correlation(first, sample(NormalStream(2, "f.W", 0), kCount))) < kFiveSigma);
  CHECK(std::fabs(correlation(first, sample(NormalStream(1, "f.V", 0), kCount))) < kFiveSigma);
  CHECK(std::fabs(correlation(first, sample(NormalStream(1, "f.W", 1), kCount))) < kFiveSigma);
  CHECK(std::fabs(correlation(first, sample(NormalStream(1ull << 32, "f.W", 0), kCount))) < kFiveSigma);
  CHECK(std::fabs(correlation(first, {base.begin() + 1, base.end()})) < kFiveSigma);
}

TEST_CASE("indices beyond 32 bits are new entries") {
  const NormalStream stream(1, "f.W", 0);
  CHECK(stream(0) != stream(uint64_t{1} << 32));
  CHECK(stream(1) != stream(uint64_t{1} << 32 | 1));
}
