// Every function that ExpandMath expands, compiled and compared with the C library in long double.
// SPDX-License-Identifier: Apache-2.0
//
// The largest error seen on 4 million random arguments for each range, in units in the last place of the result:
//
//   function      arguments                        float32  float64   asserted
//   sin           to 1e5, zeros included             1.83     1.73       2
//   cos           to 1e5, zeros included             1.89     1.75       2
//   sincos        to 1e5, zeros included             1.59     1.51       1.75
//   tan           to 1e5, zeros and poles included   1.93     1.75       2
//   exp           all                                1.00     0.97       1.25
//   exp2          all                                0.88     0.95       1.25
//   expm1         all                                1.44     1.82       2
//   log           all                                0.86     0.83       1
//   log2          all                                1.65     1.64       2
//   log1p         all                                1.41     1.30       1.75
//   tanh          all                                1.27     1.06       1.5
//   erf           all                                1.06     1.11       1.5
//   powf          all                                0.50     1.68       0.51 and 2
//   rsqrt         all                                1.50     1.50       1.5
//
// Subnormal arguments and results are among them. YAGLOM_MATH_SAMPLES=4000000 repeats this; option -s prints the errors.
#include "compiler/lower/ExpandMath.h"
#include "tests/numeric/JitHelper.h"
#include "tests/unit/Catch.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <sstream>

using yaglom::test::JitModule;

namespace {

constexpr int kBatch = 4096;

template <typename T>
constexpr const char *kTypeName = sizeof(T) == 4 ? "f32" : "f64";

/// A module with `void f(const T *x, const T *y, T *result)` over kBatch elements. `operation` assigns %r1.
template <typename T>
std::string elementwise(const std::string &operation, int operands) {
  constexpr int lanes = 64 / sizeof(T);
  std::string element = kTypeName<T>, vector = "vector<" + std::to_string(lanes) + "x" + element + ">";
  std::string buffer = "memref<" + std::to_string(kBatch) + "x" + element + ">";
  std::ostringstream text;
  text << "func.func @f(%x: " << buffer << ", %y: " << buffer << ", %r: " << buffer << ") {\n"
       << "%c0 = arith.constant 0 : index\n%n = arith.constant " << kBatch << " : index\n"
       << "%step = arith.constant " << lanes << " : index\nscf.for %i = %c0 to %n step %step {\n";
  for (const char *name : {"x", "y"})
    text << "%" << name << "1 = vector.load %" << name << "[%i] : " << buffer << ", " << vector << "\n";
  text << operation << " %x1" << (operands == 2 ? ", %y1" : "") << " : " << vector << "\n"
       << "vector.store %r1, %r[%i] : " << buffer << ", " << vector << "\n}\nreturn\n}\n";
  return text.str();
}

template <typename T>
T fromBits(uint64_t bits) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<float>(uint32_t(bits));
  else
    return std::bit_cast<double>(bits);
}

/// |got - exact| in units in the last place of T at `exact`.
template <typename T>
long double ulps(T got, long double exact) {
  T rounded = T(exact);
  if (got == rounded || (std::isnan(got) && std::isnan(exact)))
    return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded))
    // Next to overflow, infinity stands one unit above the largest number.
    return std::isinf(got) &&
                   std::fabs(exact) > std::numeric_limits<T>::max() * (1 - 2 * std::numeric_limits<T>::epsilon())
               ? 1
               : std::numeric_limits<long double>::infinity();
  int exponent = std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1);
  if (exact == 0)
    exponent = std::numeric_limits<T>::min_exponent - 1;
  return std::fabs(got - exact) / std::ldexp(1.0L, exponent - (std::numeric_limits<T>::digits - 1));
}

struct Worst {
  long double ulps = 0, x = 0, y = 0, got = 0, exact = 0;
};

template <typename T>
struct Compiled {
  using Function = void (*)(const T *, const T *, T *);
  JitModule module;
  Function function;

  explicit Compiled(const std::string &text)
      : module(text, yaglom::compiler::expandMath), function(reinterpret_cast<Function>(module.lookup("f"))) {}
};

int sampleCount() {
  const char *text = std::getenv("YAGLOM_MATH_SAMPLES");
  return text ? std::atoi(text) : 100000;
}

/// Draws arguments for one batch into x and y.
template <typename T>
using Draw = std::function<void(std::mt19937_64 &, T &, T &)>;
using Reference = long double (*)(long double, long double);

template <typename T>
Worst measure(const Compiled<T> &compiled, Reference reference, const Draw<T> &draw) {
  std::mt19937_64 random(7);
  std::vector<T> x(kBatch), y(kBatch), r(kBatch);
  Worst worst;
  const int samples = sampleCount();
  for (int done = 0; done < samples; done += kBatch) {
    for (int i = 0; i < kBatch; ++i)
      draw(random, x[i], y[i]);
    compiled.function(x.data(), y.data(), r.data());
    for (int i = 0; i < kBatch; ++i) {
      long double exact = reference(x[i], y[i]);
      long double error = ulps<T>(r[i], exact);
      if (error > worst.ulps)
        worst = {error, x[i], y[i], r[i], exact};
    }
  }
  return worst;
}

template <typename T>
Draw<T> between(double low, double high) {
  return [=](std::mt19937_64 &random, T &x, T &y) {
    x = y = T(std::uniform_real_distribution<double>(low, high)(random));
  };
}

/// Any bits at all: every exponent, infinities and NaN included.
template <typename T>
void anyBits(std::mt19937_64 &random, T &x, T &y) {
  x = fromBits<T>(random());
  y = fromBits<T>(random());
}

template <typename T>
const std::vector<T> &specialValues() {
  using Limits = std::numeric_limits<T>;
  static const std::vector<T> values = [] {
    std::vector<T> list = {0,
                           1,
                           2,
                           3,
                           T(0.5),
                           T(1.5),
                           T(0.1),
                           10,
                           88,
                           89,
                           104,
                           105,
                           150,
                           151,
                           709,
                           710,
                           745,
                           746,
                           1074,
                           1075,
                           1000,
                           T(1e5),
                           T(1e30),
                           Limits::min(),
                           Limits::denorm_min(),
                           T(Limits::min() / 3),
                           Limits::max(),
                           Limits::epsilon(),
                           Limits::infinity(),
                           T(1) / Limits::epsilon(),
                           T(2) / Limits::epsilon(),
                           1 / Limits::epsilon() + 1,
                           std::nextafter(T(1), T(2)),
                           std::nextafter(T(1), T(0)),
                           Limits::quiet_NaN()};
    for (size_t i = 0, n = list.size(); i < n; ++i)
      list.push_back(-list[i]);
    return list;
  }();
  return values;
}

/// Compares all pairs of special values, or all x alone, signs of zeros included if `signs`.
template <typename T>
void checkSpecials(const Compiled<T> &compiled, Reference reference, double bound, bool pairs, bool signs) {
  std::vector<T> x, y;
  for (T a : specialValues<T>())
    for (T b : pairs ? specialValues<T>() : std::vector<T>{1})
      x.push_back(a), y.push_back(b);
  while (x.size() % kBatch)
    x.push_back(1), y.push_back(1);
  std::vector<T> r(x.size());
  for (size_t i = 0; i < x.size(); i += kBatch)
    compiled.function(&x[i], &y[i], &r[i]);
  for (size_t i = 0; i < x.size(); ++i) {
    long double exact = reference(x[i], y[i]);
    bool close = ulps<T>(r[i], exact) <= bound;
    bool signsAgree = !signs || r[i] != 0 || std::signbit(r[i]) == std::signbit(exact);
    if (!close || !signsAgree)
      FAIL_CHECK("x = " << x[i] << ", y = " << y[i] << ": result " << r[i] << ", expected " << exact);
  }
}

#define YAGLOM_REFERENCE(expression)                                                                                   \
  [](long double x, long double y) -> long double {                                                                    \
    (void)y;                                                                                                           \
    return expression;                                                                                                 \
  }

template <typename T>
void checkRange(const char *name, const Compiled<T> &compiled, Reference reference, const Draw<T> &draw, double bound,
                const std::string &range) {
  Worst worst = measure<T>(compiled, reference, draw);
  INFO(name << " " << kTypeName<T> << " " << range << ": " << double(worst.ulps) << " ulp at x = " << worst.x
            << ", y = " << worst.y << ": " << worst.got << " instead of " << worst.exact);
  CHECK(worst.ulps <= bound);
}

struct Range {
  double low, high;
};

/// A function of one argument: over the ranges, over random bits and at the special values.
template <typename T>
void checkUnary(const char *name, Reference reference, double bound, const std::vector<Range> &ranges) {
  Compiled<T> compiled(elementwise<T>(std::string("%r1 = math.") + name, 1));
  for (Range range : ranges) {
    std::ostringstream text;
    text << range.low << ".." << range.high;
    checkRange<T>(name, compiled, reference, between<T>(range.low, range.high), bound, text.str());
  }
  checkRange<T>(name, compiled, reference, anyBits<T>, bound, "any bits");
  checkSpecials<T>(compiled, reference, bound, false, true);
}

template <typename T>
void checkCircular(const char *name, const std::string &operation, Reference reference, double bound) {
  Compiled<T> compiled(elementwise<T>(operation, 1));
  for (double high : {1.0, 4.0, 100.0, 1e4, 1e5})
    checkRange<T>(name, compiled, reference, between<T>(-high, high), bound, "+-" + std::to_string(high));
  auto small = [](std::mt19937_64 &random, T &x, T &y) {
    do
      anyBits(random, x, y);
    while (!(std::fabs(x) < 1e5));
  };
  checkRange<T>(name, compiled, reference, Draw<T>(small), bound, "any bits to 1e5");
}

} // namespace

constexpr Reference kSin = YAGLOM_REFERENCE(std::sin(x)), kCos = YAGLOM_REFERENCE(std::cos(x));

TEST_CASE("sin and cos are right to 1e5") {
  checkCircular<float>("sin", "%r1 = math.sin", kSin, 2);
  checkCircular<float>("cos", "%r1 = math.cos", kCos, 2);
  checkCircular<double>("sin", "%r1 = math.sin", kSin, 2);
  checkCircular<double>("cos", "%r1 = math.cos", kCos, 2);
}

TEST_CASE("sin and cos of one value are right to 1e5") {
  checkCircular<float>("sincos.s", "%r1, %c1 = math.sincos", kSin, 1.75);
  checkCircular<float>("sincos.c", "%s1, %r1 = math.sincos", kCos, 1.75);
  checkCircular<double>("sincos.s", "%r1, %c1 = math.sincos", kSin, 1.75);
  checkCircular<double>("sincos.c", "%s1, %r1 = math.sincos", kCos, 1.75);
}

TEST_CASE("tan is right to 1e5") {
  checkCircular<float>("tan", "%r1 = math.tan", YAGLOM_REFERENCE(std::tan(x)), 2);
  checkCircular<double>("tan", "%r1 = math.tan", YAGLOM_REFERENCE(std::tan(x)), 2);
}

TEST_CASE("exp") {
  checkUnary<float>("exp", YAGLOM_REFERENCE(std::exp(x)), 1.25, {{-1, 1}, {-105, 90}, {-105, -86}});
  checkUnary<double>("exp", YAGLOM_REFERENCE(std::exp(x)), 1.25, {{-1, 1}, {-750, 711}, {-746, -707}});
}

TEST_CASE("exp2") {
  checkUnary<float>("exp2", YAGLOM_REFERENCE(std::exp2(x)), 1.25, {{-1, 1}, {-151, 129}, {-151, -125}});
  checkUnary<double>("exp2", YAGLOM_REFERENCE(std::exp2(x)), 1.25, {{-1, 1}, {-1080, 1026}, {-1076, -1020}});
}

TEST_CASE("expm1") {
  checkUnary<float>("expm1", YAGLOM_REFERENCE(std::expm1(x)), 2, {{-1, 1}, {-20, 90}, {-1e-3, 1e-3}});
  checkUnary<double>("expm1", YAGLOM_REFERENCE(std::expm1(x)), 2, {{-1, 1}, {-50, 711}, {-1e-3, 1e-3}});
}

TEST_CASE("log") {
  checkUnary<float>("log", YAGLOM_REFERENCE(std::log(x)), 1, {{0, 2}, {0.9, 1.1}, {0, 1e-37}, {0, 1e5}});
  checkUnary<double>("log", YAGLOM_REFERENCE(std::log(x)), 1, {{0, 2}, {0.9, 1.1}, {0, 1e-307}, {0, 1e5}});
}

TEST_CASE("log2") {
  checkUnary<float>("log2", YAGLOM_REFERENCE(std::log2(x)), 2, {{0, 2}, {0.9, 1.1}, {0, 1e-37}, {0, 1e5}});
  checkUnary<double>("log2", YAGLOM_REFERENCE(std::log2(x)), 2, {{0, 2}, {0.9, 1.1}, {0, 1e-307}, {0, 1e5}});
}

TEST_CASE("log1p") {
  checkUnary<float>("log1p", YAGLOM_REFERENCE(std::log1p(x)), 1.75, {{-1, 2}, {-0.1, 0.1}, {-1e-5, 1e-5}, {-1, 1e5}});
  checkUnary<double>("log1p", YAGLOM_REFERENCE(std::log1p(x)), 1.75, {{-1, 2}, {-0.1, 0.1}, {-1e-5, 1e-5}, {-1, 1e5}});
}

TEST_CASE("tanh") {
  checkUnary<float>("tanh", YAGLOM_REFERENCE(std::tanh(x)), 1.5, {{-0.1, 0.1}, {-2, 2}, {-25, 25}});
  checkUnary<double>("tanh", YAGLOM_REFERENCE(std::tanh(x)), 1.5, {{-0.1, 0.1}, {-2, 2}, {-25, 25}});
}

TEST_CASE("erf") {
  checkUnary<float>("erf", YAGLOM_REFERENCE(std::erf(x)), 1.5, {{-0.1, 0.1}, {-2, 2}, {-7, 7}});
  checkUnary<double>("erf", YAGLOM_REFERENCE(std::erf(x)), 1.5, {{-0.1, 0.1}, {-2, 2}, {-7, 7}});
}

TEST_CASE("rsqrt") {
  checkUnary<float>("rsqrt", YAGLOM_REFERENCE(1 / std::sqrt(x)), 1.5, {{0, 4}, {0, 1e-37}});
  checkUnary<double>("rsqrt", YAGLOM_REFERENCE(1 / std::sqrt(x)), 1.5, {{0, 4}, {0, 1e-307}});
}

template <typename T>
void checkPow(double bound, double logLimit) {
  Reference reference = YAGLOM_REFERENCE(std::pow(x, y));
  Compiled<T> compiled(elementwise<T>("%r1 = math.powf", 2));
  // Results all over the range: y = t / log x.
  Draw<T> draw = [=](std::mt19937_64 &random, T &x, T &y) {
    std::uniform_real_distribution<double> unit(-1, 1);
    x = T(std::exp(unit(random) * (random() % 2 ? logLimit * 0.99 : 1.0)));
    y = T(unit(random) * logLimit / std::log(double(x)));
  };
  checkRange<T>("powf", compiled, reference, draw, bound, "all results");
  Draw<T> nearOne = [=](std::mt19937_64 &random, T &x, T &y) {
    std::uniform_real_distribution<double> unit(-1, 1);
    x = T(1 + unit(random) * 1e-3);
    y = T(unit(random) * logLimit / std::log(double(x)));
  };
  checkRange<T>("powf", compiled, reference, nearOne, bound, "x near 1");
  checkRange<T>("powf", compiled, reference, anyBits<T>, bound, "any bits");
  checkSpecials<T>(compiled, reference, bound, true, true);
}

TEST_CASE("powf follows IEEE pow") {
  checkPow<float>(0.51, 104);
  checkPow<double>(2, 745);
}
