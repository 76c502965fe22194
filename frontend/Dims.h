// Sizes as polynomials in dimension names with rational coefficients (T2): equal iff the same polynomial.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace yaglom {

/// An exact fraction in lowest terms, denominator positive.
struct Rational {
  int64_t numerator = 0;
  int64_t denominator = 1;
  bool operator==(const Rational &) const = default;

  static std::optional<Rational> make(__int128 numerator, __int128 denominator);
  /// `value` exactly, if it is a whole number or a short binary fraction (0.5, 0.375).
  static std::optional<Rational> from(double value);
};

/// A polynomial, or "invalid" once a coefficient or the number of terms has grown beyond all use.
class Poly {
public:
  Poly() = default; ///< zero
  explicit Poly(Rational constant);
  explicit Poly(int64_t constant) : Poly(Rational{constant, 1}) {}
  static Poly name(const std::string &name);
  static Poly invalid();

  bool valid() const { return ok; }
  /// The value when no name occurs.
  std::optional<Rational> constant() const;
  bool operator==(const Poly &) const = default;

  Poly operator+(const Poly &other) const;
  Poly operator-(const Poly &other) const;
  Poly operator*(const Poly &other) const;
  Poly dividedBy(Rational divisor) const; ///< invalid when the divisor is 0
  Poly power(int64_t exponent) const;

  /// The value with `values` for the names; none when a name has no value or the result leaves 64 bits.
  std::optional<Rational> evaluate(const std::map<std::string, int64_t> &values) const;
  /// The first name that has no value.
  std::optional<std::string> missing(const std::map<std::string, int64_t> &values) const;
  /// As written in a spec: "2*m", "d + 1", "M/2", "n*n".
  std::string text() const;

private:
  /// Names with their exponents, sorted by name. The empty monomial is the constant.
  using Monomial = std::vector<std::pair<std::string, uint32_t>>;
  /// Higher degrees first, so that text() reads "d*d + d + 1".
  struct Order {
    bool operator()(const Monomial &a, const Monomial &b) const;
  };
  void add(const Monomial &monomial, Rational coefficient);
  static Monomial product(const Monomial &a, const Monomial &b);
  static std::string text(const Monomial &monomial, Rational coefficient);

  std::map<Monomial, Rational, Order> terms; ///< no coefficient is 0
  bool ok = true;
};

using PolyShape = std::vector<Poly>;

/// "[2*m, d]"
std::string text(const PolyShape &shape);

} // namespace yaglom
