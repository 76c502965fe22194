// Floating-point instructions against the processor's own IEEE arithmetic, and special values of the PTX manual.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <functional>
#include <random>

namespace yaglom::emulator::test {
namespace {

constexpr uint64_t kNaN = 0x7fffffff, kInf = 0x7f800000, kMinusInf = 0xff800000, kMinusZero = 0x80000000;

uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
float single(uint64_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value)); }
double wide(uint64_t value) { return std::bit_cast<double>(value); }
uint64_t canonical(float value) { return value != value ? kNaN : bits(value); }
uint64_t canonical(double value) { return value != value ? 0x7ff8000000000000ull : bits(value); }
float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

/// Special values, numbers that nearly cancel, subnormal ones, and random patterns.
std::vector<uint64_t> floats(unsigned seed) {
  std::vector<uint64_t> made = {0,
                                kMinusZero,
                                kInf,
                                kMinusInf,
                                0x7fc00000,
                                bits(1.0f),
                                bits(-1.0f),
                                1,
                                0x007fffff,
                                0x80000001,
                                0x7f7fffff,
                                bits(1.0f + 0x1p-23f),
                                bits(0x1p-126f),
                                bits(3.0f)};
  std::mt19937 random(seed);
  std::shuffle(made.begin(), made.end(), random);
  while (made.size() < 32)
    made.push_back(made.size() % 2 ? bits(std::ldexp(static_cast<float>(static_cast<int32_t>(random())), -20))
                                   : random());
  return made;
}
std::vector<uint64_t> doubles(unsigned seed) {
  std::vector<uint64_t> made = {
      0, bits(-0.0), bits(HUGE_VAL), bits(-HUGE_VAL), bits(std::nan("")), bits(1.0), bits(1 + 0x1p-52), 1};
  std::mt19937_64 random(seed);
  std::shuffle(made.begin(), made.end(), random);
  while (made.size() < 32)
    made.push_back(bits(std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -60)));
  return made;
}

template <class T>
T rounded(const std::function<T(T, T, T)> &exact, T a, T b, T c, int mode) {
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile T x = a, y = b, z = c;
  volatile T result = exact(x, y, z);
  std::fesetround(before);
  return result;
}

const std::pair<const char *, int> kRoundings[] = {
    {"", FE_TONEAREST}, {".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

void addSingle(std::vector<Example> &made, const std::string &opcode, unsigned operands,
               const std::function<float(float, float, float)> &exact, bool needsRounding) {
  for (const auto &[name, mode] : kRoundings) {
    if (needsRounding && *name == '\0')
      continue;
    for (const char *ftz : {"", ".ftz"}) {
      Example example;
      example.code =
          opcode + name + ftz + ".f32 %d, %a" + (operands > 1 ? ", %b" : "") + (operands > 2 ? ", %c;" : ";");
      for (unsigned i = 0; i < operands; ++i)
        example.inputs.push_back({32, floats(40 + i)});
      for (unsigned lane = 0; lane < 32; ++lane) {
        float x[3] = {};
        for (unsigned i = 0; i < operands; ++i)
          x[i] = *ftz ? flushed(single(example.inputs[i].values[lane])) : single(example.inputs[i].values[lane]);
        const float value = rounded<float>(exact, x[0], x[1], x[2], mode);
        example.expected.push_back(canonical(*ftz ? flushed(value) : value));
      }
      made.push_back(example);
    }
  }
}

void addDouble(std::vector<Example> &made, const std::string &opcode, unsigned operands,
               const std::function<double(double, double, double)> &exact, bool onlyNearest = false) {
  for (const auto &[name, mode] : kRoundings) {
    if (*name == '\0' || (onlyNearest && mode != FE_TONEAREST))
      continue;
    Example example;
    example.code = opcode + name + ".f64 %d, %a" + (operands > 1 ? ", %b" : "") + (operands > 2 ? ", %c;" : ";");
    example.outBits = 64;
    for (unsigned i = 0; i < operands; ++i)
      example.inputs.push_back({64, doubles(50 + i)});
    for (unsigned lane = 0; lane < 32; ++lane) {
      double x[3] = {};
      for (unsigned i = 0; i < operands; ++i)
        x[i] = wide(example.inputs[i].values[lane]);
      example.expected.push_back(canonical(rounded<double>(exact, x[0], x[1], x[2], mode)));
    }
    made.push_back(example);
  }
}

Example binary(const std::string &code, std::vector<uint64_t> a, std::vector<uint64_t> b,
               std::vector<uint64_t> expected, unsigned width = 32) {
  return {code + " %d, %a, %b;", width, {{width, std::move(a)}, {width, std::move(b)}}, std::move(expected)};
}
Example unary(const std::string &code, std::vector<uint64_t> a, std::vector<uint64_t> expected, unsigned width = 32) {
  return {code + " %d, %a;", width, {{width, std::move(a)}}, std::move(expected)};
}

} // namespace

std::vector<Example> floatExamples() {
  std::vector<Example> made;
  addSingle(made, "add", 2, [](float a, float b, float) { return a + b; }, false);
  addSingle(made, "sub", 2, [](float a, float b, float) { return a - b; }, false);
  addSingle(made, "mul", 2, [](float a, float b, float) { return a * b; }, false);
  addSingle(made, "fma", 3, [](float a, float b, float c) { return std::fma(a, b, c); }, true);
  addSingle(made, "mad", 3, [](float a, float b, float c) { return std::fma(a, b, c); }, true);
  addSingle(made, "div", 2, [](float a, float b, float) { return a / b; }, true);
  addSingle(made, "rcp", 1, [](float a, float, float) { return 1 / a; }, true);
  addSingle(made, "sqrt", 1, [](float a, float, float) { return std::sqrt(a); }, true);
  addDouble(made, "add", 2, [](double a, double b, double) { return a + b; });
  addDouble(made, "sub", 2, [](double a, double b, double) { return a - b; });
  addDouble(made, "mul", 2, [](double a, double b, double) { return a * b; });
  addDouble(made, "fma", 3, [](double a, double b, double c) { return std::fma(a, b, c); });
  addDouble(made, "mad", 3, [](double a, double b, double c) { return std::fma(a, b, c); });
  addDouble(made, "div", 2, [](double a, double b, double) { return a / b; });
  addDouble(made, "rcp", 1, [](double a, double, double) { return 1 / a; }, true);
  addDouble(made, "sqrt", 1, [](double a, double, double) { return std::sqrt(a); }, true);
  // one rounding: (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24, which two roundings lose
  made.push_back({"fma.rn.f32 %d, %a, %b, %c;",
                  32,
                  {{32, {bits(1 + 0x1p-12f)}}, {32, {bits(1 + 0x1p-12f)}}, {32, {bits(-1 - 0x1p-11f)}}},
                  {bits(0x1p-24f)}});
  made.push_back(binary("div.full.f32", {bits(6.0f)}, {bits(3.0f)}, {bits(2.0f)}));
  made.push_back(binary("div.approx.ftz.f32", {bits(6.0f)}, {bits(3.0f)}, {bits(2.0f)}));
  made.push_back(binary("add.sat.f32", {bits(0.75f), bits(-1.0f), kInf, bits(0.25f)},
                        {bits(0.75f), bits(0.5f), kMinusInf, bits(0.5f)}, {bits(1.0f), 0, 0, bits(0.75f)}));
  made.push_back(binary("add.rz.sat.f32", {bits(0.75f)}, {bits(0.75f)}, {bits(1.0f)}));
  made.push_back(binary("mul.ftz.sat.f32", {bits(4.0f)}, {bits(0x1p-4f)}, {bits(0.25f)}));
  // a NaN yields to a number, -0 < +0
  const std::vector<uint64_t> a = {bits(1.0f), 0x7fc00000, 0x7fc00000, kMinusZero, 0, kMinusInf};
  const std::vector<uint64_t> b = {bits(2.0f), bits(3.0f), 0xffc00001, 0, kMinusZero, kInf};
  made.push_back(binary("min.f32", a, b, {bits(1.0f), bits(3.0f), kNaN, kMinusZero, kMinusZero, kMinusInf}));
  made.push_back(binary("max.f32", a, b, {bits(2.0f), bits(3.0f), kNaN, 0, 0, kInf}));
  made.push_back(binary("min.NaN.f32", a, b, {bits(1.0f), kNaN, kNaN, kMinusZero, kMinusZero, kMinusInf}));
  made.push_back(binary("max.NaN.f32", a, b, {bits(2.0f), kNaN, kNaN, 0, 0, kInf}));
  made.push_back(binary("max.ftz.f32", {1, 0x80000001}, {kMinusZero, 0x80000002}, {0, kMinusZero}));
  made.push_back(
      binary("min.xorsign.abs.f32", {bits(-1.0f), bits(-3.0f)}, {bits(2.0f), bits(-2.0f)}, {bits(-1.0f), bits(2.0f)}));
  made.push_back(
      binary("min.f64", {bits(1.0), bits(std::nan(""))}, {bits(-2.0), bits(5.0)}, {bits(-2.0), bits(5.0)}, 64));
  made.push_back(binary("max.f64", {bits(1.0), bits(-0.0)}, {bits(-2.0), bits(0.0)}, {bits(1.0), bits(0.0)}, 64));
  made.push_back(unary("abs.f32", {bits(-2.0f), kMinusZero}, {bits(2.0f), 0}));
  made.push_back(unary("abs.ftz.f32", {0x80000001}, {0}));
  made.push_back(unary("neg.f32", {bits(-2.0f), 0}, {bits(2.0f), kMinusZero}));
  made.push_back(unary("abs.f64", {bits(-2.0)}, {bits(2.0)}, 64));
  made.push_back(unary("neg.f64", {bits(0.0)}, {bits(-0.0)}, 64));
  made.push_back(
      binary("copysign.f32", {kMinusZero, bits(5.0f)}, {bits(3.0f), bits(-4.0f)}, {bits(-3.0f), bits(4.0f)}));
  made.push_back(binary("copysign.f64", {bits(-0.0)}, {bits(3.0)}, {bits(-3.0)}, 64));
  const std::vector<uint64_t> classes = {0, bits(1.0f), kInf, kNaN, 1};
  const std::pair<const char *, std::vector<uint64_t>> properties[] = {
      {"finite", {1, 1, 0, 0, 1}},     {"infinite", {0, 0, 1, 0, 0}}, {"number", {1, 1, 1, 0, 1}},
      {"notanumber", {0, 0, 0, 1, 0}}, {"normal", {0, 1, 0, 0, 0}},   {"subnormal", {1, 0, 0, 0, 1}}};
  for (const auto &[name, expected] : properties)
    made.push_back({fmt::format("testp.{}.f32 %d, %a;", name), 1, {{32, classes}}, expected});
  made.push_back({"testp.infinite.f64 %d, %a;", 1, {{64, {bits(HUGE_VAL), bits(1.0)}}}, {1, 0}});
  return made;
}

namespace {

/// bfloat16 and half by their definition: the nearest of all values, found by search.
double halfValue(uint64_t pattern, bool bf16) {
  const int fraction = bf16 ? 7 : 10, bias = bf16 ? 127 : 15;
  const int exponent = static_cast<int>(pattern >> fraction & (bf16 ? 255 : 31));
  const double part = static_cast<double>(pattern & ((1u << fraction) - 1));
  const double magnitude = exponent == 0 ? std::ldexp(part, 1 - bias - fraction)
                           : exponent == (bf16 ? 255 : 31)
                               ? (part != 0 ? std::nan("") : HUGE_VAL)
                               : std::ldexp(part + (1 << fraction), exponent - bias - fraction);
  return pattern >> 15 & 1 ? -magnitude : magnitude;
}
uint64_t nearestHalf(long double value, bool bf16) {
  if (value != value)
    return 0x7fff;
  const uint64_t infinity = bf16 ? 0x7f80 : 0x7c00;
  const long double magnitude = value < 0 ? -value : value;
  uint64_t low = 0, high = infinity; // patterns are ordered as their values
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (static_cast<long double>(halfValue(middle, bf16)) <= magnitude ? low : high) = middle;
  }
  const long double below = halfValue(low, bf16);
  const long double above =
      high == infinity ? std::ldexp(1.0L, bf16 ? 128 : 16) : static_cast<long double>(halfValue(high, bf16));
  const long double toBelow = magnitude - below, toAbove = above - magnitude;
  const uint64_t nearest = std::isinf(magnitude) || toAbove < toBelow || (toAbove == toBelow && low % 2) ? high : low;
  return nearest | (std::signbit(value) ? 0x8000 : 0);
}

std::vector<uint64_t> halves(unsigned seed) {
  std::vector<uint64_t> made = {0, 0x8000, 0x7fff, 0x0001, 0x3c00, 0x3f80, 0xbc00, 0x7bff, 0x03ff};
  std::mt19937 random(seed);
  std::shuffle(made.begin(), made.end(), random);
  while (made.size() < 32)
    made.push_back(made.size() % 2 ? (random() & 0xffff) : 0x3c00 + (random() & 0x83ff));
  return made;
}

void addHalf(std::vector<Example> &made, const std::string &opcode, unsigned operands, bool bf16,
             const std::function<long double(long double, long double, long double)> &exact) {
  const std::string type = bf16 ? "bf16" : "f16";
  Example one, pair;
  const std::string list = std::string(" %d, %a") + (operands > 1 ? ", %b" : "") + (operands > 2 ? ", %c;" : ";");
  one.code = opcode + "." + type + list;
  one.outBits = 16;
  pair.code = opcode + "." + type + "x2" + list;
  for (unsigned i = 0; i < operands; ++i) {
    one.inputs.push_back({16, halves(60 + i)});
    pair.inputs.push_back({32, {}});
    for (unsigned lane = 0; lane < 32; ++lane)
      pair.inputs[i].values.push_back(one.inputs[i].values[lane] << 16 | one.inputs[i].values[(lane + 1) % 32]);
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    long double x[3] = {};
    for (unsigned i = 0; i < operands; ++i)
      x[i] = halfValue(one.inputs[i].values[lane], bf16);
    one.expected.push_back(nearestHalf(exact(x[0], x[1], x[2]), bf16));
  }
  for (unsigned lane = 0; lane < 32; ++lane)
    pair.expected.push_back(one.expected[lane] << 16 | one.expected[(lane + 1) % 32]);
  made.push_back(one);
  made.push_back(pair);
}

} // namespace

std::vector<Example> halfExamples() {
  std::vector<Example> made;
  for (const bool bf16 : {false, true}) {
    addHalf(made, "add", 2, bf16, [](long double a, long double b, long double) { return a + b; });
    addHalf(made, "sub", 2, bf16, [](long double a, long double b, long double) { return a - b; });
    addHalf(made, "mul", 2, bf16, [](long double a, long double b, long double) { return a * b; });
    addHalf(made, "min", 2, bf16, [](long double a, long double b, long double) {
      return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? a : b;
    });
    addHalf(made, "max", 2, bf16, [](long double a, long double b, long double) {
      return a != a ? b : b != b ? a : a > b || (a == b && !std::signbit(a)) ? a : b;
    });
  }
  // 64 bits hold an f16 product and sum exactly; for bf16 the exponents may lie too far apart: a case by hand follows
  addHalf(made, "fma.rn", 3, false, [](long double a, long double b, long double c) { return a * b + c; });
  // 1 * (1 + 2^-7) + 2^-8 lies half way; + 2^-133 more decides upwards, less decides downwards
  made.push_back({"fma.rn.bf16 %d, %a, %b, %c;",
                  16,
                  {{16, {0x3f81, 0x3f81}}, {16, {0x3f80, 0x3f80}}, {16, {0x3b80, 0xbb80}}},
                  {0x3f82, 0x3f80}});
  made.push_back({"fma.rn.bf16x2 %d, %a, %b, %c;",
                  32,
                  {{32, {0x40004000}}, {32, {0x40404040}}, {32, {0x3f80bf80}}},
                  {0x40e040a0}});
  made.push_back({"fma.rn.relu.bf16x2 %d, %a, %b, %c;",
                  32,
                  {{32, {0x4000c000}}, {32, {0x40404040}}, {32, {0x3f803f80}}},
                  {0x40e00000}});
  made.push_back({"fma.rn.relu.f16 %d, %a, %b, %c;", 16, {{16, {0xbc00}}, {16, {0x3c00}}, {16, {0}}}, {0}});
  made.push_back({"add.sat.f16 %d, %a, %b;", 16, {{16, {0x3c00}}, {16, {0x3c00}}}, {0x3c00}});
  made.push_back({"add.ftz.f16 %d, %a, %b;", 16, {{16, {0x0001}}, {16, {0x0001}}}, {0}});
  made.push_back({"min.NaN.f16x2 %d, %a, %b;", 32, {{32, {0x7e003c00}}, {32, {0x3c004000}}}, {0x7fff3c00}});
  for (const char *type : {"f16", "bf16"}) {
    made.push_back({fmt::format("abs.{} %d, %a;", type), 16, {{16, {0xbc00}}}, {0x3c00}});
    made.push_back({fmt::format("neg.{} %d, %a;", type), 16, {{16, {0xbc00}}}, {0x3c00}});
    made.push_back({fmt::format("abs.{}x2 %d, %a;", type), 32, {{32, {0xbc008001}}}, {0x3c000001}});
    made.push_back({fmt::format("neg.{}x2 %d, %a;", type), 32, {{32, {0xbc000001}}}, {0x3c008001}});
  }
  return made;
}

std::vector<Example> functionExamples() {
  std::vector<Example> made;
  const std::vector<uint64_t> inputs = floats(70);
  const auto add = [&](const std::string &name, long double (*exact)(long double)) {
    Example example{name + ".f32 %d, %a;", 32, {{32, inputs}}, {}};
    for (const uint64_t input : inputs)
      example.expected.push_back(canonical(static_cast<float>(exact(single(input)))));
    made.push_back(example);
  };
  add("rcp.approx", [](long double x) { return 1 / x; });
  add("sqrt.approx", [](long double x) { return std::sqrt(x); });
  add("rsqrt.approx", [](long double x) { return 1 / std::sqrt(x); });
  add("ex2.approx", [](long double x) { return std::exp2(x); });
  add("lg2.approx", [](long double x) { return std::log2(x); });
  add("sin.approx", [](long double x) { return std::sin(x); });
  add("cos.approx", [](long double x) { return std::cos(x); });
  add("tanh.approx", [](long double x) { return std::tanh(x); });
  made.push_back(unary("ex2.approx.ftz.f32", {bits(-130.0f), kMinusInf, 1}, {0, 0, bits(1.0f)}));
  made.push_back(unary("rcp.approx.ftz.f32", {1, 0x80000001, bits(0x1p127f)}, {kInf, kMinusInf, 0}));
  made.push_back(unary("rcp.approx.ftz.f64", {bits(4.0), bits(0.0)}, {bits(0.25), bits(HUGE_VAL)}, 64));
  made.push_back(unary("rsqrt.approx.f64", {bits(16.0)}, {bits(0.25)}, 64));
  made.push_back(unary("ex2.approx.f16", {0x3c00, 0x4900, 0xfc00}, {0x4000, 0x6400, 0}, 16));
  made.push_back(unary("ex2.approx.f16x2", {0x3c00c000}, {0x40003400}));
  made.push_back(unary("ex2.approx.ftz.bf16", {0x3f80, 0xc000}, {0x4000, 0x3e80}, 16));
  made.push_back(unary("ex2.approx.ftz.bf16x2", {0x3f80c000}, {0x40003e80}));
  made.push_back(unary("tanh.approx.f16", {0, 0x7c00, 0xfc00}, {0, 0x3c00, 0xbc00}, 16));
  made.push_back(unary("tanh.approx.f16x2", {0x7c000000}, {0x3c000000}));
  made.push_back(unary("tanh.approx.bf16", {0xff80, 0x3f80}, {0xbf80, nearestHalf(std::tanh(1.0L), true)}, 16));
  made.push_back(unary("tanh.approx.bf16x2", {0x7f80ff80}, {0x3f80bf80}));
  return made;
}

TEST_CASE("float arithmetic is IEEE's in every rounding, flushed and saturated where asked") {
  for (const Example &example : floatExamples())
    check(example);
}

TEST_CASE("half and bfloat16 arithmetic is the nearest value") {
  for (const Example &example : halfExamples())
    check(example);
}

TEST_CASE("elementary functions are within an ulp of the exact value") {
  for (const Example &example : functionExamples()) {
    const std::vector<uint64_t> found = evaluate(example);
    INFO(example.code);
    for (std::size_t lane = 0; lane < example.expected.size(); ++lane) {
      INFO("lane " << lane << ", input " << example.inputs[0].values[lane % example.inputs[0].values.size()]);
      const auto ulps = static_cast<int64_t>(found[lane]) - static_cast<int64_t>(example.expected[lane]);
      CHECK(std::abs(ulps) <= 1);
    }
  }
}

} // namespace yaglom::emulator::test
