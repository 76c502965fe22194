// The extended number type of the reference, and the derivatives of its elementary functions.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Functions.h"
#include "frontend/Builtins.h"
#include "support/Random.h"

#include "tests/unit/Catch.h"

#include <cmath>
#include <limits>

using namespace yaglom;
using namespace yaglom::reference;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

double slope(std::string_view name, double x) {
  return (*findUnary(name))(WideDual(Wide(x), Wide(1))).tangent.toDouble();
}
double value(std::string_view name, double x) { return (*findUnary(name))(Wide(x)).toDouble(); }

/// Gradients of f(a, b) to a and to b.
template <typename Function>
std::pair<double, double> slopes(Function f, double a, double b) {
  return {f(WideDual(Wide(a), Wide(1)), WideDual(Wide(b))).tangent.toDouble(),
          f(WideDual(Wide(a)), WideDual(Wide(b), Wide(1))).tangent.toDouble()};
}

const auto kPower = [](const WideDual &x, const WideDual &p) { return power(x, p); };
const auto kMinimum = [](const WideDual &a, const WideDual &b) { return minimum(a, b); };
const auto kMaximum = [](const WideDual &a, const WideDual &b) { return maximum(a, b); };

} // namespace

TEST_CASE("ordinary numbers are doubles bit for bit") {
  const NormalStream stream(1, "wide", 0);
  for (uint64_t i = 0; i < 2000; i += 2) {
    const double x = stream(i) * std::ldexp(1.0, static_cast<int>(i % 100)), y = stream(i + 1);
    CHECK((Wide(x) + Wide(y)).toDouble() == x + y);
    CHECK((Wide(x) - Wide(y)).toDouble() == x - y);
    CHECK((Wide(x) * Wide(y)).toDouble() == x * y);
    CHECK((Wide(x) / Wide(y)).toDouble() == x / y);
    CHECK((Wide(x) < Wide(y)) == (x < y));
    CHECK(exp(Wide(y)).toDouble() == std::exp(y));
  }
}

TEST_CASE("numbers beyond the range of double keep their value") {
  const Wide large = exp(Wide(1443)), small = exp(Wide(-1443));
  CHECK((large * small).toDouble() == Approx(1).epsilon(1e-12));
  CHECK(log(large).toDouble() == Approx(1443).epsilon(1e-15));
  CHECK(log(small * small * small).toDouble() == Approx(-4329).epsilon(1e-15));
  CHECK((large / (large + large)).toDouble() == 0.5);
  CHECK(((large + Wide(1)) / large).toDouble() == 1);
  CHECK((large - large).isZero());
  CHECK(sqrt(large * large).toDouble() == kInfinity);
  CHECK((sqrt(large * large) / large).toDouble() == Approx(1).epsilon(1e-15));
  CHECK((sqrt(large) * sqrt(large) / large).toDouble() == Approx(1).epsilon(1e-15));
  CHECK((pow(large, Wide(0.5)) / sqrt(large)).toDouble() == Approx(1).epsilon(1e-12));
  CHECK((pow(-large, Wide(3)) / (large * large * large)).toDouble() == Approx(-1).epsilon(1e-11));
  CHECK(std::isnan(pow(-large, Wide(0.5)).toDouble()));
  CHECK((exp2(Wide(5000.5)) / exp2(Wide(5000))).toDouble() == Approx(std::sqrt(2.0)).epsilon(1e-15));
  CHECK(exp(Wide(1e300)).toDouble() == kInfinity);
  CHECK(exp(Wide(-1e300)).isZero());
  CHECK(large.toDouble() == kInfinity);
  CHECK(small.toDouble() == 0);
}

TEST_CASE("comparisons look at sign and size across the whole range") {
  const Wide large = exp(Wide(2000)), small = exp(Wide(-2000));
  CHECK(small < Wide(1));
  CHECK(Wide(1) < large);
  CHECK(-large < small);
  CHECK(-large < -small);
  CHECK(Wide(0) < small);
  CHECK(-small < Wide(0));
  CHECK(large < Wide(kInfinity));
  CHECK(Wide(-kInfinity) < -large);
  CHECK_FALSE(Wide(kInfinity) < large);
  CHECK_FALSE(large < Wide(-kInfinity));
  CHECK_FALSE(Wide(kNan) < large);
  CHECK_FALSE(large < Wide(kNan));
}

TEST_CASE("sums of numbers with far exponents are right") {
  const Wide x[] = {exp(Wide(1000)), Wide(2), exp(Wide(-1000))};
  const Wide y[] = {exp(Wide(-1000)), Wide(3), exp(Wide(1000))};
  CHECK(dot(x, y, 3).toDouble() == Approx(8).epsilon(1e-12));
  Wide sums[] = {Wide(1), Wide(1), Wide(1)};
  addScaled(sums, exp(Wide(1000)), y, 3);
  CHECK(sums[0].toDouble() == Approx(2).epsilon(1e-12));
  CHECK(log(sums[2]).toDouble() == Approx(2000).epsilon(1e-15));
}

TEST_CASE("infinity and NaN behave as in double") {
  const Wide infinity(kInfinity), large = exp(Wide(1000));
  CHECK((infinity + large).toDouble() == kInfinity);
  CHECK((large + infinity).toDouble() == kInfinity);
  CHECK((infinity - infinity).isNan());
  CHECK((infinity * Wide(0)).isNan());
  CHECK((Wide(1) / Wide(0)).toDouble() == kInfinity);
  CHECK((Wide(0) / Wide(0)).isNan());
  CHECK((Wide(kNan) + large).isNan());
  CHECK((large + Wide(kNan)).isNan());
}

TEST_CASE("every elementary function of the language has the value of its definition") {
  for (const Elementary &function : elementaryFunctions()) {
    INFO(function.name);
    if (function.maxArgs == 2)
      continue; // min and max: below
    REQUIRE(findUnary(function.name));
    for (double x : {0.1, 0.9, 1.7, 3.0, 20.0, -0.3, -2.5, -30.0}) {
      INFO(x);
      const double expected = function.value(x, 0);
      if (std::isnan(expected))
        CHECK(std::isnan(value(function.name, x)));
      else
        CHECK(value(function.name, x) == Approx(expected).epsilon(1e-14));
    }
  }
}

TEST_CASE("every derivative agrees with a difference quotient") {
  for (const Elementary &function : elementaryFunctions())
    if (function.maxArgs == 1)
      for (double x : {0.3, 0.9, 1.7, 3.1, -0.4, -1.3, -2.7}) {
        INFO(function.name << " at " << x);
        const double step = 1e-5;
        const double difference = (value(function.name, x + step) - value(function.name, x - step)) / (2 * step);
        if (!std::isnan(difference))
          CHECK(slope(function.name, x) == Approx(difference).epsilon(1e-7).margin(1e-9));
      }
}

TEST_CASE("functions are right at both ends") {
  CHECK(value("softplus", -100) == Approx(std::exp(-100)).epsilon(1e-15));
  CHECK(value("softplus", 1e10) == 1e10);
  CHECK(value("sigmoid", -100) == Approx(std::exp(-100)).epsilon(1e-15));
  CHECK(slope("sigmoid", -100) == Approx(std::exp(-100)).epsilon(1e-15));
  CHECK(slope("sigmoid", 100) == Approx(std::exp(-100)).epsilon(1e-15));
  CHECK(slope("tanh", 40) == Approx(4 * std::exp(-80)).epsilon(1e-14));
  CHECK(value("elu + 1", -100) == Approx(std::exp(-100)).epsilon(1e-15));
  CHECK(value("log1p", 1e-20) == 1e-20);
  CHECK(value("expm1", 1e-20) == 1e-20);
  CHECK(log((*findUnary("expm1"))(Wide(1000))).toDouble() == Approx(1000));
  CHECK((*findUnary("softplus"))(exp(Wide(1000))) == exp(Wide(1000)));
}

TEST_CASE("derivatives at kinks are those of the language") {
  CHECK(slope("relu", 0) == 0);
  CHECK(slope("elu", 0) == 1);
  CHECK(slope("elu + 1", 0) == 1);
  CHECK(slope("abs", 0) == 0);
  CHECK(slope("sign", 0) == 0);
  CHECK(rootOfSquares(WideDual(Wide(0), Wide(1))).tangent.isZero());
  CHECK(slopes(kMinimum, 2, 2) == std::pair(0.5, 0.5));
  CHECK(slopes(kMaximum, 2, 2) == std::pair(0.5, 0.5));
  CHECK(slopes(kMaximum, 2, 3) == std::pair(0.0, 1.0));
  CHECK(slopes(kMinimum, 2, 3) == std::pair(1.0, 0.0));
}

TEST_CASE("powers at zero are those of the language") {
  CHECK(power(Wide(0), Wide(0)).toDouble() == 1);
  CHECK(slopes(kPower, 0, 2) == std::pair(0.0, 0.0));
  CHECK(slopes(kPower, 0, 2.5) == std::pair(0.0, 0.0));
  CHECK(slopes(kPower, 0, 1) == std::pair(1.0, 0.0));
  CHECK(slopes(kPower, 0, 0) == std::pair(0.0, 0.0));
  CHECK(std::isnan(power(Wide(-2), Wide(0.5)).toDouble()));
  CHECK(power(Wide(-2), Wide(3)).toDouble() == -8);
  CHECK(slopes(kPower, 3, 2).first == Approx(6));
  CHECK(slopes(kPower, 3, 2).second == Approx(9 * std::log(3)));
  CHECK(power(WideDual(Wide(-3), Wide(1)), WideDual(Wide(2))).tangent.toDouble() == Approx(-6));
}

TEST_CASE("a zero tangent stays zero where the derivative is infinite") {
  CHECK((*findUnary("sqrt"))(WideDual(Wide(0))).tangent.isZero());
  CHECK((*findUnary("log"))(WideDual(Wide(0))).tangent.isZero());
  CHECK((WideDual(Wide(kNan)) * WideDual(Wide(2))).tangent.isZero());
}
