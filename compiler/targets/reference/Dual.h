// Dual numbers: a value and its derivative along one direction, by forward differentiation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Wide.h"

namespace yaglom::reference {

template <typename R>
struct DualOf {
  R value{};
  R tangent{};

  DualOf() = default;
  DualOf(R value, R tangent = R{}) : value(value), tangent(tangent) {}
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  DualOf(Number value) : value(static_cast<double>(value)) {}
};

/// The scalar of a caller who wants directional derivatives.
using Dual = DualOf<double>;

/// The interpreter's own scalar for a caller's scalar T: it adds the exponent range.
template <typename T>
struct ScalarOf;
template <>
struct ScalarOf<double> {
  using Type = Wide;
  static Wide widen(double x) { return x; }
  static double narrow(const Wide &x) { return x.toDouble(); }
};
template <>
struct ScalarOf<Dual> {
  using Type = DualOf<Wide>;
  static DualOf<Wide> widen(const Dual &x) { return {Wide(x.value), Wide(x.tangent)}; }
  static Dual narrow(const DualOf<Wide> &x) { return {x.value.toDouble(), x.tangent.toDouble()}; }
};

/// The chain rule. A tangent of exactly zero says "does not depend", and stays so where the derivative is infinite or NaN.
inline Wide chain(Wide tangent, Wide derivative) { return tangent.isZero() ? Wide() : tangent * derivative; }

using WideDual = DualOf<Wide>;

inline WideDual operator-(const WideDual &a) { return {-a.value, -a.tangent}; }
inline WideDual operator+(const WideDual &a, const WideDual &b) { return {a.value + b.value, a.tangent + b.tangent}; }
inline WideDual operator-(const WideDual &a, const WideDual &b) { return {a.value - b.value, a.tangent - b.tangent}; }
inline WideDual operator*(const WideDual &a, const WideDual &b) {
  return {a.value * b.value, chain(a.tangent, b.value) + chain(b.tangent, a.value)};
}
inline WideDual operator/(const WideDual &a, const WideDual &b) {
  const Wide quotient = a.value / b.value;
  return {quotient, chain(a.tangent, Wide(1) / b.value) - chain(b.tangent, quotient / b.value)};
}
inline WideDual &operator+=(WideDual &a, const WideDual &b) { return a = a + b; }
inline WideDual &operator*=(WideDual &a, const WideDual &b) { return a = a * b; }

inline WideDual dot(const WideDual *x, const WideDual *y, int64_t count) {
  WideDual sum;
  for (int64_t i = 0; i < count; ++i)
    sum += x[i] * y[i];
  return sum;
}
inline void addScaled(WideDual *sums, const WideDual &factor, const WideDual *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    sums[i] += factor * x[i];
}

inline Wide valueOf(const Wide &x) { return x; }
inline Wide valueOf(const WideDual &x) { return x.value; }

} // namespace yaglom::reference
