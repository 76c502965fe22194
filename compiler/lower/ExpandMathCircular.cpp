// sin, cos and tan: range reduction to a half or a quarter turn, polynomials, signs from the bits of the count.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/ExpandMathFunctions.h"
#include "compiler/lower/ExpandMathTables.h"

using mlir::Value;

namespace yaglom::compiler {
namespace {

/// Beyond a quarter turn's rest, by the rounding of the count for large arguments.
constexpr double kQuarterLimit = 0.85;

/// x - n period in three steps; the first is exact, so that the result is right to rounding also near its zeros.
Value subtractPeriods(const MathEmitter &e, Value x, Value n, const double (&period)[3]) {
  Value r = x;
  for (double term : period)
    r = e.fma(n, e.f(-term), r);
  return r;
}

Value sinPolynomial(const MathEmitter &e, Value r, llvm::ArrayRef<double> coefficients) {
  Value z = e.mul(r, r);
  return e.fma(e.mul(e.polynomial(z, coefficients), z), r, r);
}

/// v with its sign changed where the integer in the low bits of `count` is odd.
Value negateOdd(const MathEmitter &e, Value v, Value count) {
  int signPosition = e.isWide() ? 63 : 31;
  return e.floatOf(e.bitXor(e.bitsOf(v), e.shiftLeft(count, signPosition)));
}

/// sin of a half turn's rest, the sign changed where `count` is odd. The limit cuts a last place above 1, and keeps
/// arguments far outside the range of the reduction within [-1, 1]; their polynomial is infinite at worst, not NaN.
Value sinHalfTurn(const MathEmitter &e, Value r, Value count) {
  return negateOdd(e, e.clamp(sinPolynomial(e, r, tablesOf(e).sinHalf), -1, 1), count);
}

/// The multiple of pi/2 next to x, as a float and as an integer in the low bits of `quadrant`.
struct QuarterCount {
  Value n, quadrant;
};

QuarterCount countQuarters(const MathEmitter &e, Value x) {
  Value magic = e.f(e.magic());
  Value shifted = e.fma(x, e.f(0.63661977236758134308), magic);
  Value n = e.sub(shifted, magic);
  return {n, e.bitsOf(shifted)};
}

/// {sin r, cos r} for |r| <= 0.85.
std::pair<Value, Value> sinCosKernel(const MathEmitter &e, Value r) {
  const MathTables &t = tablesOf(e);
  Value z = e.mul(r, r);
  Value sine = e.fma(e.mul(e.polynomial(z, t.sinQuarter), z), r, r);
  Value tail = e.polynomial(z, t.cosQuarter);
  Value cosine = e.fma(e.fma(tail, z, e.f(-0.5)), z, e.f(1));
  return {sine, cosine};
}

} // namespace

Value expandSin(const MathEmitter &e, Value x) {
  // One polynomial over a half turn is cheaper than two over a quarter.
  Value magic = e.f(e.magic());
  Value shifted = e.fma(x, e.f(0.31830988618379067154), magic);
  Value r = subtractPeriods(e, x, e.sub(shifted, magic), tablesOf(e).pi);
  return sinHalfTurn(e, r, e.bitsOf(shifted));
}

Value expandCos(const MathEmitter &e, Value x) {
  // cos x = -(-1)^n sin(x - (n + 1/2) pi); the minus is the 1 added to the magic number.
  Value magic = e.f(e.magic() + 1);
  Value turns = e.fma(x, e.f(0.31830988618379067154), e.f(-0.5));
  Value shifted = e.add(turns, magic);
  Value n = e.add(e.sub(shifted, magic), e.f(0.5));
  return sinHalfTurn(e, subtractPeriods(e, x, n, tablesOf(e).pi), e.bitsOf(shifted));
}

std::pair<Value, Value> expandSinCos(const MathEmitter &e, Value x) {
  QuarterCount count = countQuarters(e, x);
  Value r = e.clamp(subtractPeriods(e, x, count.n, tablesOf(e).halfPi), -kQuarterLimit, kQuarterLimit);
  auto [sine, cosine] = sinCosKernel(e, r);
  Value odd = e.isOdd(count.quadrant);
  // The second lowest bit of n, for the cosine of n + 1, is the sign.
  Value sineSign = e.shiftRight(count.quadrant, 1);
  Value cosineSign = e.shiftRight(e.addBits(count.quadrant, e.i(1)), 1);
  return {negateOdd(e, e.select(odd, cosine, sine), sineSign), negateOdd(e, e.select(odd, sine, cosine), cosineSign)};
}

Value expandTan(const MathEmitter &e, Value x) {
  // A quotient of two rounded numbers would be wrong by more than 2 units: sine, cosine and r carry a low word each.
  const MathTables &t = tablesOf(e);
  QuarterCount count = countQuarters(e, x);
  Value head = e.fma(count.n, e.f(-t.halfPi[0]), x);
  Value step = e.mul(count.n, e.f(t.halfPi[1]));
  Value r = e.sub(head, step);
  Value stepLow = e.fma(count.n, e.f(-t.halfPi[2]), e.fma(count.n, e.f(-t.halfPi[1]), step));
  Value rLow = e.add(e.sub(e.sub(head, r), step), stepLow);

  Value one = e.f(1), z = e.mul(r, r);
  Value sineTail = e.fma(e.mul(e.polynomial(z, t.sinQuarter), z), r, rLow);
  Value sine = e.add(r, sineTail);
  Value sineLow = e.sub(sineTail, e.sub(sine, r));
  Value cosineTail = e.mul(e.fma(e.polynomial(z, t.cosQuarter), z, e.f(-0.5)), z);
  cosineTail = e.fma(e.neg(r), rLow, cosineTail);
  Value cosine = e.add(one, cosineTail);
  Value cosineLow = e.sub(cosineTail, e.sub(cosine, one));

  Value odd = e.isOdd(count.quadrant);
  Value numerator = e.select(odd, cosine, sine), numeratorLow = e.select(odd, cosineLow, sineLow);
  Value denominator = e.select(odd, sine, cosine), denominatorLow = e.select(odd, sineLow, cosineLow);
  Value inverse = e.div(one, denominator);
  Value quotient = e.mul(numerator, inverse);
  Value negative = e.neg(quotient);
  Value rest = e.fma(negative, denominatorLow, e.add(e.fma(negative, denominator, numerator), numeratorLow));
  return negateOdd(e, e.fma(rest, inverse, quotient), count.quadrant);
}

} // namespace yaglom::compiler
