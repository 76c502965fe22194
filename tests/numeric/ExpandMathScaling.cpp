// emitExp2Scaled and emitLdexp, and what holds for all expansions: shapes, shared reductions, no library.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/ExpandMath.h"
#include "tests/numeric/JitHelper.h"
#include "tests/unit/Catch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>

using yaglom::compiler::emitExp2Scaled;
using yaglom::compiler::emitLdexp;
using yaglom::compiler::expandMath;
using yaglom::compiler::lowExponent;
using yaglom::test::JitModule;

namespace {

constexpr int kBatch = 64;

/// `void f(const T *x, const T *y, T *result)` with `body` from %x, %y of type TYPE to %r, on vectors of `shape`; an empty
/// shape is a scalar and works on the first element.
std::string program(const std::string &element, const std::string &shape, std::string body) {
  std::string flat = "vector<64x" + element + ">", buffer = "memref<64x" + element + ">";
  std::string type = shape.empty() ? element : "vector<" + shape + "x" + element + ">";
  for (size_t at; (at = body.find("TYPE")) != std::string::npos;)
    body.replace(at, 4, type);
  std::ostringstream text;
  text << "func.func @f(%xs: " << buffer << ", %ys: " << buffer << ", %rs: " << buffer << ") {\n"
       << "%c0 = arith.constant 0 : index\n";
  for (const char *name : {"x", "y"})
    if (shape.empty())
      text << "%" << name << " = memref.load %" << name << "s[%c0] : " << buffer << "\n";
    else
      text << "%" << name << "f = vector.load %" << name << "s[%c0] : " << buffer << ", " << flat << "\n%" << name
           << " = vector.shape_cast %" << name << "f : " << flat << " to " << type << "\n";
  text << body << "\n";
  if (shape.empty())
    text << "memref.store %r, %rs[%c0] : " << buffer << "\n";
  else
    text << "%rf = vector.shape_cast %r : " << type << " to " << flat << "\nvector.store %rf, %rs[%c0] : " << buffer
         << ", " << flat << "\n";
  text << "return\n}\n";
  return text.str();
}

/// Replaces test.exp2_scaled and test.ldexp by what the builder functions emit, then expands the math operations.
void transform(mlir::Operation *root) {
  root->getContext()->loadDialect<mlir::arith::ArithDialect, mlir::math::MathDialect>();
  root->walk([](mlir::Operation *op) {
    llvm::StringRef name = op->getName().getStringRef();
    if (name != "test.exp2_scaled" && name != "test.ldexp")
      return;
    mlir::OpBuilder builder(op);
    auto emit = name == "test.ldexp" ? emitLdexp : emitExp2Scaled;
    op->replaceAllUsesWith(mlir::ValueRange{emit(builder, op->getLoc(), op->getOperand(0), op->getOperand(1))});
    op->erase();
  });
  expandMath(root);
}

template <typename T>
struct Binary {
  JitModule module;
  void (*function)(const T *, const T *, T *);

  Binary(const std::string &shape, const std::string &body)
      : module(program(sizeof(T) == 4 ? "f32" : "f64", shape, body), transform),
        function(reinterpret_cast<void (*)(const T *, const T *, T *)>(module.lookup("f"))) {}

  std::vector<T> operator()(const std::vector<T> &x, const std::vector<T> &y) const {
    std::vector<T> r(kBatch);
    function(x.data(), y.data(), r.data());
    return r;
  }
  T operator()(T x, T y) const { return (*this)(std::vector<T>(kBatch, x), std::vector<T>(kBatch, y))[0]; }
};

template <typename T>
bool sameBits(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

/// x 2^n, rounded once.
template <typename T>
T scale(T x, T n) {
  return T(std::scalbn((long double)x, int(std::fmax(-9000, std::fmin(9000, n)))));
}

const char *kLdexp = "%r = \"test.ldexp\"(%x, %y) : (TYPE, TYPE) -> TYPE";
const char *kExp2Scaled = "%r = \"test.exp2_scaled\"(%x, %y) : (TYPE, TYPE) -> TYPE";

template <typename T>
void checkLdexp() {
  using Limits = std::numeric_limits<T>;
  Binary<T> ldexp("64", kLdexp);
  std::mt19937_64 random(3);
  std::vector<T> x(kBatch), n(kBatch);
  int wrong = 0;
  for (int round = 0; round < 4000; ++round) {
    for (int i = 0; i < kBatch; ++i) {
      x[i] = sizeof(T) == 4 ? T(std::bit_cast<float>(uint32_t(random()))) : T(std::bit_cast<double>(random()));
      int span = round % 3 == 0 ? 40 : round % 3 == 1 ? Limits::max_exponent : 3 * Limits::max_exponent;
      n[i] = T(int(random() % (2 * span + 1)) - span);
    }
    std::vector<T> r = ldexp(x, n);
    for (int i = 0; i < kBatch; ++i)
      if (!sameBits(r[i], scale(x[i], n[i])) && ++wrong < 5)
        FAIL_CHECK("ldexp(" << x[i] << ", " << n[i] << ") = " << r[i] << ", expected " << scale(x[i], n[i]));
  }
  CHECK(wrong == 0);
  T infinity = Limits::infinity();
  for (T huge : {T(0x1p24), T(1e30), infinity}) {
    CHECK(sameBits(ldexp(T(1), -huge), T(0)));
    CHECK(sameBits(ldexp(Limits::max(), -huge), T(0)));
    CHECK(sameBits(ldexp(Limits::denorm_min(), huge), infinity));
    CHECK(sameBits(ldexp(T(-0.0), huge), T(-0.0)));
    CHECK(sameBits(ldexp(infinity, -huge), infinity));
    CHECK(std::isnan(ldexp(Limits::quiet_NaN(), -huge)));
  }
}

template <typename T>
void checkExp2Scaled() {
  using Limits = std::numeric_limits<T>;
  Binary<T> exp2("64", kExp2Scaled);
  std::mt19937_64 random(5);
  std::vector<T> f(kBatch), a(kBatch), zero(kBatch, 0);
  int wrong = 0;
  long double worst = 0;
  for (int round = 0; round < 4000; ++round) {
    for (int i = 0; i < kBatch; ++i) {
      // Fractions of f stay in its bits also after large shifts of a.
      f[i] = T(std::uniform_real_distribution<double>(-2000, 2000)(random));
      int span = 2 * Limits::max_exponent;
      a[i] = std::nearbyint(f[i]) + T(int(random() % (2 * span + 1)) - span);
    }
    std::vector<T> nearest(kBatch);
    for (int i = 0; i < kBatch; ++i)
      nearest[i] = std::nearbyint(f[i]);
    std::vector<T> unit = exp2(f, nearest), r = exp2(f, a);
    for (int i = 0; i < kBatch; ++i) {
      worst = std::max(worst, std::fabs(unit[i] - std::exp2((long double)f[i] - nearest[i])) / (Limits::epsilon() / 2));
      // Powers below the normal numbers are 0, those above them infinite.
      const T power = nearest[i] - a[i];
      T expected = power < Limits::min_exponent - 1   ? T(0)
                   : power > Limits::max_exponent - 1 ? Limits::infinity()
                                                      : scale(unit[i], power);
      if (!sameBits(r[i], expected) && ++wrong < 5)
        FAIL_CHECK("2^(" << f[i] << " - " << a[i] << ") = " << r[i] << ", expected " << expected);
    }
  }
  CHECK(wrong == 0);
  INFO("worst error of the significand: " << double(worst) << " ulp");
  CHECK(worst <= 2);

  T low = T(lowExponent(sizeof(T) == 8)), infinity = Limits::infinity(), nan = Limits::quiet_NaN();
  CHECK(sameBits(exp2(low, 0), T(0)));
  CHECK(sameBits(exp2(low, low), T(1)));
  CHECK(sameBits(exp2(2 * low, low), T(0)));
  CHECK(sameBits(exp2(-infinity, low), T(0)));
  CHECK(sameBits(exp2(Limits::lowest(), 0), T(0)));
  CHECK(sameBits(exp2(0, low), infinity));
  CHECK(sameBits(exp2(-low, -low), T(1)));
  CHECK(sameBits(exp2(T(0x1p30), T(0x1p30)), T(1)));
  CHECK(sameBits(exp2(infinity, 5), infinity));
  CHECK(sameBits(exp2(3, infinity), T(0)));
  CHECK(std::isnan(exp2(nan, 0)));
  CHECK(std::isnan(exp2(0, nan)));
}

/// A function by name, as one statement.
std::string statement(const std::string &name) {
  if (name == "sincos")
    return "%s, %r = math.sincos %x : TYPE";
  if (name == "sin and cos")
    return "%s = math.sin %x : TYPE\n%c = math.cos %x : TYPE\n%r = arith.addf %s, %c : TYPE";
  return "%r = math." + name + " %x" + (name == "powf" ? ", %y" : "") + " : TYPE";
}

const std::vector<std::string> kFunctions = {"sin", "cos",  "sincos", "sin and cos", "tan", "exp",  "exp2", "expm1",
                                             "log", "log2", "log1p",  "tanh",        "erf", "powf", "rsqrt"};

template <typename T>
void checkShapes(const std::string &flat, const std::vector<std::string> &shapes) {
  std::mt19937_64 random(11);
  std::vector<T> x(kBatch), y(kBatch);
  for (int i = 0; i < kBatch; ++i) {
    x[i] = T(std::uniform_real_distribution<double>(0.1, 5)(random));
    y[i] = T(std::uniform_real_distribution<double>(-3, 3)(random));
  }
  for (const std::string &name : kFunctions) {
    INFO(name);
    Binary<T> function(flat, statement(name));
    CHECK(function.module.undefinedSymbols() == std::vector<std::string>{});
    std::vector<T> expected = function(x, y);
    for (const std::string &shape : shapes) {
      INFO("shape '" << shape << "'");
      Binary<T> other(shape, statement(name));
      CHECK(other.module.undefinedSymbols() == std::vector<std::string>{});
      std::vector<T> r = other(x, y);
      for (int i = 0; i < (shape.empty() ? 1 : kBatch); ++i)
        if (!sameBits(r[i], expected[i]))
          FAIL_CHECK("element " << i << ": " << r[i] << ", expected " << expected[i]);
    }
  }
}

template <typename T>
void checkFar() {
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 random(13);
  for (const char *name : {"sin", "cos", "sincos"}) {
    INFO(name);
    Binary<T> function("64", statement(name));
    std::vector<T> x(kBatch);
    for (int round = 0; round < 2000; ++round) {
      for (T &element : x)
        element = sizeof(T) == 4 ? T(std::bit_cast<float>(uint32_t(random()))) : T(std::bit_cast<double>(random()));
      std::vector<T> r = function(x, x);
      for (int i = 0; i < kBatch; ++i)
        if (std::isfinite(x[i]) ? !(std::fabs(r[i]) <= 1) : !std::isnan(r[i]))
          FAIL_CHECK("x = " << x[i] << ": " << r[i]);
    }
    CHECK(std::isnan(function(Limits::infinity(), 0)));
    CHECK(std::isnan(function(-Limits::infinity(), 0)));
    CHECK(std::fabs(function(Limits::max(), 0)) <= 1);
    CHECK(std::fabs(function(Limits::lowest(), 0)) <= 1);
  }
}

} // namespace

TEST_CASE("ldexp rounds once, for exponents of any size") {
  checkLdexp<float>();
  checkLdexp<double>();
}

TEST_CASE("exp2 scaled keeps the significand whatever is subtracted") {
  checkExp2Scaled<float>();
  checkExp2Scaled<double>();
}

TEST_CASE("every shape gives the same bits and calls no library") {
  checkShapes<float>("64", {"", "4x16", "2x2x16", "8x8"});
  checkShapes<double>("64", {"", "8x8"});
}

TEST_CASE("sin and cos stay within 1 for any argument and are NaN at infinity") {
  checkFar<float>();
  checkFar<double>();
}

TEST_CASE("sincos gives the bits of sin and cos in one block") {
  std::vector<float> x(kBatch);
  for (int i = 0; i < kBatch; ++i)
    x[i] = float(i * i) - 900.5f;
  Binary<float> sum("64", "%s, %c = math.sincos %x : TYPE\n%r = arith.addf %s, %c : TYPE");
  CHECK(sum(x, x) == Binary<float>("64", statement("sin and cos"))(x, x));
}
