// sin, cos and tan: range reduction to a half or a quarter turn, polynomials, signs from the bits of the count.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/ExpandMathFunctions.h"
#include "compiler/targets/cpu/ExpandMathTables.h"

using mlir::Value;

namespace yaglom::compiler::cpu {
namespace {

/// x - n period in three steps; the first is exact, so that the result is right to rounding also near its zeros.
/// Far outside the range of the reduction the rest is cut to +-limit, which keeps sin and cos within [-1, 1].
Value subtractPeriods(const MathEmitter &e, Value x, Value n, const double (&period)[3], double limit) {
  Value r = x;
  for (double term : period)
    r = e.fma(n, e.f(-term), r);
  return e.clamp(r, -limit, limit);
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

/// x = n pi/2 + r; the low bits of `quadrant` are those of n.
struct QuarterReduction {
  Value r, quadrant;
};

QuarterReduction reduceQuarter(const MathEmitter &e, Value x) {
  Value magic = e.f(e.magic());
  Value shifted = e.fma(x, e.f(0.63661977236758134308), magic);
  Value n = e.sub(shifted, magic);
  return {subtractPeriods(e, x, n, tablesOf(e).halfPi, 0.85), e.bitsOf(shifted)};
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
  const MathTables &t = tablesOf(e);
  Value magic = e.f(e.magic());
  Value shifted = e.fma(x, e.f(0.31830988618379067154), magic);
  Value r = subtractPeriods(e, x, e.sub(shifted, magic), t.pi, 1.63);
  return negateOdd(e, sinPolynomial(e, r, t.sinHalf), e.bitsOf(shifted));
}

Value expandCos(const MathEmitter &e, Value x) {
  // cos x = -(-1)^n sin(x - (n + 1/2) pi); the sign is in the lowest bit of the shift.
  const MathTables &t = tablesOf(e);
  Value magic = e.f(e.magic() + 1);
  Value turns = e.fma(x, e.f(0.31830988618379067154), e.f(-0.5));
  Value shifted = e.add(turns, magic);
  Value n = e.add(e.sub(shifted, magic), e.f(0.5));
  Value r = subtractPeriods(e, x, n, t.pi, 1.63);
  return negateOdd(e, sinPolynomial(e, r, t.sinHalf), e.bitsOf(shifted));
}

std::pair<Value, Value> expandSinCos(const MathEmitter &e, Value x) {
  QuarterReduction reduced = reduceQuarter(e, x);
  auto [sine, cosine] = sinCosKernel(e, reduced.r);
  Value odd = e.isOdd(reduced.quadrant);
  // The second lowest bit of n, for the cosine of n + 1, is the sign.
  Value sineSign = e.shiftRight(reduced.quadrant, 1);
  Value cosineSign = e.shiftRight(e.addBits(reduced.quadrant, e.i(1)), 1);
  return {negateOdd(e, e.select(odd, cosine, sine), sineSign), negateOdd(e, e.select(odd, sine, cosine), cosineSign)};
}

Value expandTan(const MathEmitter &e, Value x) {
  QuarterReduction reduced = reduceQuarter(e, x);
  Value odd = e.isOdd(reduced.quadrant);
  Value quotient;
  if (e.isWide()) {
    auto [sine, cosine] = sinCosKernel(e, reduced.r);
    quotient = e.div(e.select(odd, cosine, sine), e.select(odd, sine, cosine));
  } else {
    Value tangent = sinPolynomial(e, reduced.r, tablesOf(e).tan);
    quotient = e.select(odd, e.div(e.f(1), tangent), tangent);
  }
  return negateOdd(e, quotient, reduced.quadrant);
}

} // namespace yaglom::compiler::cpu
