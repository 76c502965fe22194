// The expansions of single math functions: range reduction, polynomial, reconstruction, special cases by select.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/ExpandMathFunctions.h"

#include "compiler/lower/ExpandMath.h"
#include "compiler/lower/ExpandMathTables.h"

#include <cmath>
#include <limits>

using mlir::Value;

namespace yaglom::compiler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// 2^k from an integer whose low bits are the biased exponent k + bias; the others do not matter.
Value powerOfBits(const MathEmitter &e, Value bits) { return e.floatOf(e.shiftLeft(bits, e.mantissa())); }

/// The same from a float with these low bits, as any sum of k with biasedMagic() has.
Value powerOfBiased(const MathEmitter &e, Value biased) { return powerOfBits(e, e.bitsOf(biased)); }
double biasedMagic(const MathEmitter &e) { return e.magic() + e.bias(); }

double twiceBiasedMagic(const MathEmitter &e) { return e.magic() + 2 * e.bias(); }

/// p 2^n for |n| <= 2 (bias - 1), given n + twiceBiasedMagic(): by two factors, so that neither overflows and only the last
/// product may round, to a subnormal number.
Value scaleTwice(const MathEmitter &e, Value p, Value shifted) {
  Value bits = e.bitsOf(shifted);
  Value half = e.shiftRight(bits, 1), rest = e.subBits(bits, half);
  Value scaled = e.mul(p, powerOfBits(e, half));
  return e.mul(scaled, powerOfBits(e, rest));
}

/// x = n ln 2 + r with |r| <= ln 2 / 2; `shifted` is n + shift, with n in its low bits.
struct ExpReduction {
  Value shifted, n, r;
};

ExpReduction reduceExp(const MathEmitter &e, Value x, double shift) {
  const MathTables &t = tablesOf(e);
  ExpReduction result;
  result.shifted = e.fma(x, e.f(t.log2e[0]), e.f(shift));
  result.n = e.sub(result.shifted, e.f(shift));
  Value r = e.fma(result.n, e.f(-t.ln2[0]), x);
  result.r = e.fma(result.n, e.f(-t.ln2[1]), r);
  return result;
}

/// e^r for |r| <= ln 2 / 2.
Value expKernel(const MathEmitter &e, Value r) {
  Value tail = e.polynomial(r, tablesOf(e).exp);
  return e.add(e.fma(e.mul(r, r), tail, r), e.f(1));
}

/// 2^r for |r| <= 1/2.
Value exp2Kernel(const MathEmitter &e, Value r) { return e.fma(e.polynomial(r, tablesOf(e).exp2), r, e.f(1)); }

/// e^x as a product {p, 2^n} for an x whose result is a normal number.
std::pair<Value, Value> expNormal(const MathEmitter &e, Value x) {
  ExpReduction reduced = reduceExp(e, x, biasedMagic(e));
  return {expKernel(e, reduced.r), powerOfBiased(e, reduced.shifted)};
}

/// x = 2^exponent (1 + f) with sqrt(1/2) <= 1 + f < sqrt 2.
struct LogReduction {
  Value f, exponent, exponentBits;
};

/// For normal positive x.
LogReduction reduceLog(const MathEmitter &e, Value x) {
  uint64_t root = tablesOf(e).sqrtHalfBits;
  uint64_t mantissaMask = (uint64_t(1) << e.mantissa()) - 1;
  Value shifted = e.addBits(e.bitsOf(x), e.i((uint64_t(e.bias()) << e.mantissa()) - root));
  Value biased = e.shiftRight(shifted, e.mantissa());
  // The integer k becomes a float by way of the bits of 2^mantissa + k.
  uint64_t powerBits = uint64_t(e.bias() + e.mantissa()) << e.mantissa();
  double power = double(uint64_t(1) << e.mantissa());
  LogReduction result;
  result.exponent = e.sub(e.floatOf(e.bitOr(biased, e.i(powerBits))), e.f(power + e.bias()));
  result.exponentBits = e.shiftLeft(biased, e.mantissa());
  Value m = e.floatOf(e.addBits(e.bitAnd(shifted, e.i(mantissaMask)), e.i(root)));
  result.f = e.sub(m, e.f(1));
  return result;
}

/// The same for any positive x, subnormal ones included.
LogReduction reduceLogAny(const MathEmitter &e, Value x) {
  double lift = e.mantissa() + 2;
  Value tiny = e.less(x, e.f(tablesOf(e).minNormal));
  Value lifted = e.mul(x, e.f(double(uint64_t(1) << (e.mantissa() + 2))));
  LogReduction result = reduceLog(e, e.select(tiny, lifted, x));
  result.exponent = e.sub(result.exponent, e.select(tiny, e.f(lift), e.f(0)));
  return result;
}

/// log(1 + f) + exponent ln 2; without an exponent, log(1 + f).
Value logKernel(const MathEmitter &e, Value f, Value exponent) {
  const MathTables &t = tablesOf(e);
  Value z = e.mul(f, f);
  Value tail; // log(1 + f) = f + tail
  if (e.isWide()) {
    // 2s + s z P(z) with s = f / (2 + f), rearranged around f because f is exact.
    Value s = e.div(f, e.add(f, e.f(2)));
    Value ss = e.mul(s, s);
    Value half = e.mul(z, e.f(0.5));
    Value inner = e.fma(ss, e.polynomial(ss, t.log), half);
    Value product = exponent ? e.fma(s, inner, e.mul(exponent, e.f(t.ln2[1]))) : e.mul(s, inner);
    tail = e.sub(product, half);
  } else {
    tail = e.mul(e.mul(f, z), e.polynomial(f, t.log));
    if (exponent)
      tail = e.fma(exponent, e.f(t.ln2[1]), tail);
    tail = e.fma(z, e.f(-0.5), tail);
  }
  Value sum = e.add(f, tail);
  return exponent ? e.fma(exponent, e.f(t.ln2[0]), sum) : sum;
}

/// The values of a logarithm of x at `pole` (-inf), below it (NaN), at inf and for NaN.
Value logSpecial(const MathEmitter &e, Value x, double pole, Value result) {
  result = e.select(e.equal(x, e.f(kInfinity)), x, result);
  result = e.select(e.lessOrNaN(x, e.f(pole)), e.f(kNaN), result);
  return e.select(e.equal(x, e.f(pole)), e.f(-kInfinity), result);
}

} // namespace

namespace {

/// Whether x is made so that it cannot exceed 0: min(y, 0) or -|y|, as in elu and softplus.
bool isAtMostZero(Value x) {
  if (auto negation = x.getDefiningOp<mlir::arith::NegFOp>())
    return negation.getOperand().getDefiningOp<mlir::math::AbsFOp>() != nullptr;
  auto minimum = x.getDefiningOp<mlir::arith::MinimumFOp>();
  auto constant = minimum ? minimum.getRhs().getDefiningOp<mlir::arith::ConstantOp>() : nullptr;
  auto splat = constant ? mlir::dyn_cast<mlir::SplatElementsAttr>(constant.getValue()) : nullptr;
  return splat && splat.getSplatValue<llvm::APFloat>().isZero();
}

} // namespace

Value expandExp(const MathEmitter &e, Value x) {
  const MathTables &t = tablesOf(e);
  if (isAtMostZero(x)) {
    // 2^(n + lift) is a normal number for every n of a result that is not 0; only the last product may round.
    const int lift = e.isWide() ? 64 : 32;
    ExpReduction reduced = reduceExp(e, e.atLeast(x, t.expLow), biasedMagic(e) + lift);
    return e.mul(e.mul(expKernel(e, reduced.r), powerOfBiased(e, reduced.shifted)), e.f(std::ldexp(1.0, -lift)));
  }
  ExpReduction reduced = reduceExp(e, e.clamp(x, t.expLow, t.expHigh), twiceBiasedMagic(e));
  return scaleTwice(e, expKernel(e, reduced.r), reduced.shifted);
}

Value expandExp2(const MathEmitter &e, Value x) {
  const MathTables &t = tablesOf(e);
  Value clamped = e.clamp(x, t.exp2Low, t.exp2High);
  Value n = e.roundEven(clamped);
  return scaleTwice(e, exp2Kernel(e, e.sub(clamped, n)), e.add(n, e.f(twiceBiasedMagic(e))));
}

Value expandExpm1(const MathEmitter &e, Value x) {
  const MathTables &t = tablesOf(e);
  // Half of 2^n is a float for the largest n too: e^x - 1 = 2 (h (e^r - 1) + (h - 1/2)) with h = 2^(n - 1).
  Value clamped = e.clamp(x, t.expm1Low, t.expHigh);
  ExpReduction reduced = reduceExp(e, clamped, e.magic() + (e.bias() - 1));
  Value h = powerOfBiased(e, reduced.shifted);
  Value p = e.fma(e.mul(reduced.r, reduced.r), e.polynomial(reduced.r, t.expm1), reduced.r);
  Value result = e.mul(e.fma(h, p, e.sub(h, e.f(0.5))), e.f(2));
  // Halving would cost subnormal x a bit, and -0 its sign.
  return e.select(e.less(e.abs(x), e.f(e.isWide() ? 0x1p-54 : 0x1p-25)), x, result);
}

Value expandLog(const MathEmitter &e, Value x) {
  LogReduction reduced = reduceLogAny(e, x);
  return logSpecial(e, x, 0, logKernel(e, reduced.f, reduced.exponent));
}

Value expandLog2(const MathEmitter &e, Value x) {
  const MathTables &t = tablesOf(e);
  LogReduction reduced = reduceLogAny(e, x);
  Value natural = logKernel(e, reduced.f, {});
  Value fraction = e.fma(natural, e.f(t.log2e[0]), e.mul(natural, e.f(t.log2e[1])));
  return logSpecial(e, x, 0, e.add(fraction, reduced.exponent));
}

Value expandLog1p(const MathEmitter &e, Value x) {
  // u + c = 1 + x exactly; c joins f as (c / 2) 2^(1 - exponent), whose bits hold for every finite u.
  Value one = e.f(1);
  Value u = e.add(one, x);
  Value back = e.sub(u, one);
  Value c = e.add(e.sub(one, e.sub(u, back)), e.sub(x, back));
  LogReduction reduced = reduceLog(e, u);
  Value inverse = e.floatOf(e.subBits(e.i(uint64_t(2 * e.bias() + 1) << e.mantissa()), reduced.exponentBits));
  Value f = e.fma(e.mul(c, e.f(0.5)), inverse, reduced.f);
  Value result = logKernel(e, f, reduced.exponent);
  return e.copySign(logSpecial(e, x, -1, result), x);
}

Value expandTanh(const MathEmitter &e, Value x) {
  const MathTables &t = tablesOf(e);
  Value a = e.abs(x);
  Value small = e.less(a, e.f(t.tanhSmall));
  Value z = e.mul(a, a);
  Value numerator = e.mul(e.mul(a, z), e.polynomial(z, t.tanhNumerator));
  Value bounded = e.atMost(a, t.tanhOne);
  auto [p, power] = expNormal(e, e.add(bounded, bounded));
  Value denominator = e.fma(p, power, e.f(1));
  // a + numerator / Q, or 1 - 2 / (e^2a + 1).
  Value result;
  if (t.tanhDenominator.empty()) {
    result = e.select(small, e.add(a, numerator), e.sub(e.f(1), e.div(e.f(2), denominator)));
  } else {
    numerator = e.select(small, numerator, e.f(-2));
    denominator = e.select(small, e.polynomial(z, t.tanhDenominator), denominator);
    result = e.add(e.select(small, a, e.f(1)), e.div(numerator, denominator));
  }
  return e.copySign(result, x);
}

Value expandErf(const MathEmitter &e, Value x) {
  const MathTables &t = tablesOf(e);
  Value a = e.abs(x);
  Value near = e.fma(e.polynomial(e.mul(a, a), t.erf), a, a);
  auto [p, power] = expNormal(e, e.polynomial(e.atMost(a, t.erfOne), t.logErfc));
  Value far = e.fma(e.neg(p), power, e.f(1));
  return e.copySign(e.select(e.less(a, e.f(1)), near, far), x);
}

namespace {

/// An unevaluated sum, high + low, |low| at most half a unit in the last place of high.
struct DoubleWord {
  Value high, low;
};

/// a + b for |a| >= |b| or a = 0.
DoubleWord fastSum(const MathEmitter &e, Value a, Value b) {
  Value sum = e.add(a, b);
  return {sum, e.sub(b, e.sub(sum, a))};
}

DoubleWord exactProduct(const MathEmitter &e, Value a, Value b) {
  Value product = e.mul(a, b);
  return {product, e.fma(a, b, e.neg(product))};
}

/// log x to some 65 bits, for positive x: pow multiplies its error by up to 700.
DoubleWord logDouble(const MathEmitter &e, Value x) {
  LogReduction reduced = reduceLogAny(e, x);
  Value f = reduced.f, one = e.f(1);

  // s = f / (2 + f), where 2 + f = m + (1 + f - m) and one division serves both words.
  Value m = e.add(f, e.f(2));
  Value mLow = e.sub(f, e.sub(m, e.f(2)));
  Value inverse = e.div(one, m);
  Value s = e.mul(f, inverse);
  Value rest = e.fma(e.neg(s), mLow, e.fma(e.neg(s), m, f));
  Value sLow = e.mul(rest, inverse);

  // s^3 and the terms from s^5 on.
  DoubleWord z = exactProduct(e, s, s);
  Value zLow = e.fma(e.add(s, s), sLow, z.low);
  DoubleWord cube = exactProduct(e, s, z.high);
  Value cubeLow = e.fma(sLow, z.high, e.fma(s, zLow, cube.low));
  DoubleWord third = exactProduct(e, cube.high, e.f(tables::kTwoThirds[0]));
  Value thirdLow = e.fma(cube.high, e.f(tables::kTwoThirds[1]), third.low);
  thirdLow = e.fma(cubeLow, e.f(tables::kTwoThirds[0]), thirdLow);
  Value tail = e.mul(e.mul(cube.high, z.high), e.polynomial(z.high, tables::kLogTail));

  DoubleWord sum = fastSum(e, e.mul(reduced.exponent, e.f(tables::kLn2Short[0])), e.add(s, s));
  DoubleWord total = fastSum(e, sum.high, third.high);
  Value low = e.fma(reduced.exponent, e.f(tables::kLn2Short[1]), e.add(sum.low, total.low));
  low = e.add(e.add(low, thirdLow), e.fma(sLow, e.f(2), tail));
  return fastSum(e, total.high, low);
}

/// a^y for a >= 0 in float64, without the rules for a = 1 and y = 0.
Value powMagnitude(const MathEmitter &e, Value a, Value y) {
  const MathTables &t = tablesOf(e);
  DoubleWord logarithm = logDouble(e, a);
  Value high = e.select(e.less(a, e.f(kInfinity)), logarithm.high, a);
  high = e.select(e.equal(a, e.f(0)), e.f(-kInfinity), high);
  DoubleWord exponent = exactProduct(e, y, high);
  Value low = e.fma(y, logarithm.low, exponent.low);
  low = e.select(e.less(e.abs(exponent.high), e.f(1000)), low, e.f(0));
  ExpReduction reduced = reduceExp(e, e.clamp(exponent.high, t.expLow, t.expHigh), twiceBiasedMagic(e));
  return scaleTwice(e, expKernel(e, e.add(reduced.r, low)), reduced.shifted);
}

} // namespace

Value expandPow(const MathEmitter &e, Value x, Value y) {
  Value a = e.abs(x), magnitude;
  if (e.isWide()) {
    magnitude = powMagnitude(e, a, y);
  } else {
    // float64 holds the error that the exponent multiplies.
    MathEmitter wide = e.as(mlir::Float64Type::get(x.getContext()));
    Value product = wide.mul(wide.extend(y), expandLog2(wide, wide.extend(a)));
    magnitude = e.truncate(expandExp2(wide, product));
  }
  magnitude = e.select(e.equal(a, e.f(1)), e.f(1), magnitude);
  magnitude = e.select(e.equal(y, e.f(0)), e.f(1), magnitude);

  // An odd y hands the sign of x on; a negative finite x has no other real power than those of integers.
  Value integer = e.equal(e.floor(y), y);
  Value half = e.mul(y, e.f(0.5));
  Value odd = e.both(integer, e.notEqual(e.floor(half), half));
  Value result = e.select(odd, e.copySign(magnitude, x), magnitude);
  Value negative = e.both(e.less(x, e.f(0)), e.less(a, e.f(kInfinity)));
  return e.select(e.butNot(negative, integer), e.f(kNaN), result);
}

Value expandRsqrt(const MathEmitter &e, Value x) { return e.div(e.f(1), e.sqrt(x)); }

Value expandExp2Scaled(const MathEmitter &e, Value f, Value a) {
  Value bounded = e.clamp(f, 2 * lowExponent(e.isWide()), kHighExponent);
  Value n = e.roundEven(bounded);
  // One factor, whose exponent field is 0 below the normal numbers and that of infinity above them. What is that small
  // next to the largest term does not count.
  Value k = e.clamp(e.sub(n, a), -e.bias(), e.bias() + 1);
  // The product with 0 hands a NaN in k on, which the bits of the power would lose.
  Value p = e.fma(k, e.f(0), exp2Kernel(e, e.sub(bounded, n)));
  return e.mul(p, powerOfBiased(e, e.add(k, e.f(biasedMagic(e)))));
}

Value expandLdexp(const MathEmitter &e, Value x, Value n) {
  // Three factors reach from the largest number to the smallest. The last takes all it can: where an earlier product is
  // subnormal, and so may round, the last brings it to 0 anyway.
  double low = 1 - e.bias(), high = e.bias();
  Value last = e.clamp(n, low, high);
  Value rest = e.sub(n, last);
  Value middle = e.clamp(rest, low, high);
  Value first = e.clamp(e.sub(rest, middle), low, high);
  for (Value exponent : {first, middle, last})
    x = e.mul(x, powerOfBiased(e, e.add(exponent, e.f(biasedMagic(e)))));
  return x;
}

} // namespace yaglom::compiler
