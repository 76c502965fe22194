// Polynomial arithmetic on sizes. Every operation is exact or says that it cannot be.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Dims.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace yaglom {
namespace {

/// A size is a sum of a few terms; more would only cost time.
constexpr size_t kMaxTerms = 64;
constexpr uint32_t kMaxDegree = 64;

uint32_t degree(const std::vector<std::pair<std::string, uint32_t>> &monomial) {
  uint32_t sum = 0;
  for (const auto &[name, exponent] : monomial)
    sum += exponent;
  return sum;
}

std::optional<Rational> times(Rational a, Rational b) {
  return Rational::make(static_cast<__int128>(a.numerator) * b.numerator,
                        static_cast<__int128>(a.denominator) * b.denominator);
}

std::optional<Rational> plus(Rational a, Rational b) {
  // |each product| <= 2^126, so that the sum fits 128 bits.
  return Rational::make(static_cast<__int128>(a.numerator) * b.denominator +
                            static_cast<__int128>(b.numerator) * a.denominator,
                        static_cast<__int128>(a.denominator) * b.denominator);
}

} // namespace

std::optional<Rational> Rational::make(__int128 numerator, __int128 denominator) {
  if (denominator == 0)
    return std::nullopt;
  __int128 a = numerator < 0 ? -numerator : numerator, b = denominator < 0 ? -denominator : denominator;
  while (b != 0)
    a = std::exchange(b, a % b);
  numerator /= denominator < 0 ? -a : a;
  denominator /= denominator < 0 ? -a : a;
  // Symmetric, so that a negation never overflows.
  constexpr __int128 limit = std::numeric_limits<int64_t>::max();
  if (numerator > limit || numerator < -limit || denominator > limit)
    return std::nullopt;
  return Rational{static_cast<int64_t>(numerator), static_cast<int64_t>(denominator)};
}

std::optional<Rational> Rational::from(double value) {
  constexpr double unit = 1 << 20;
  if (!(std::abs(value) < 0x1p40) || value * unit != std::floor(value * unit))
    return std::nullopt;
  return make(static_cast<int64_t>(value * unit), static_cast<int64_t>(unit));
}

bool Poly::Order::operator()(const Monomial &a, const Monomial &b) const {
  uint32_t degreeA = degree(a), degreeB = degree(b);
  return degreeA != degreeB ? degreeA > degreeB : a < b;
}

Poly::Poly(Rational constant) { add({}, constant); }

Poly Poly::name(const std::string &name) {
  Poly result;
  result.add({{name, 1}}, {1, 1});
  return result;
}

Poly Poly::invalid() {
  Poly result;
  result.ok = false;
  return result;
}

std::optional<Rational> Poly::constant() const {
  if (!ok || terms.size() > 1 || (terms.size() == 1 && !terms.begin()->first.empty()))
    return std::nullopt;
  return terms.empty() ? Rational{} : terms.begin()->second;
}

void Poly::add(const Monomial &monomial, Rational coefficient) {
  if (coefficient.numerator == 0)
    return;
  auto [place, isNew] = terms.emplace(monomial, coefficient);
  if (!isNew) {
    std::optional<Rational> sum = plus(place->second, coefficient);
    ok &= sum.has_value();
    place->second = sum.value_or(Rational{});
    if (place->second.numerator == 0)
      terms.erase(place);
  }
  if (terms.size() > kMaxTerms || degree(monomial) > kMaxDegree)
    ok = false;
  if (!ok)
    terms.clear();
}

Poly Poly::operator+(const Poly &other) const {
  if (!ok || !other.ok)
    return invalid();
  Poly result = *this;
  for (const auto &[monomial, coefficient] : other.terms)
    if (result.ok)
      result.add(monomial, coefficient);
  return result;
}

Poly Poly::operator-(const Poly &other) const { return *this + other * Poly(-1); }

Poly::Monomial Poly::product(const Monomial &a, const Monomial &b) {
  std::map<std::string, uint32_t> exponents(a.begin(), a.end());
  for (const auto &[name, exponent] : b)
    exponents[name] += exponent;
  return {exponents.begin(), exponents.end()};
}

Poly Poly::operator*(const Poly &other) const {
  if (!ok || !other.ok)
    return invalid();
  Poly result;
  for (const auto &[monomialA, a] : terms)
    for (const auto &[monomialB, b] : other.terms) {
      std::optional<Rational> coefficient = times(a, b);
      if (!coefficient)
        return invalid();
      result.add(product(monomialA, monomialB), *coefficient);
      if (!result.ok)
        return result;
    }
  return result;
}

Poly Poly::dividedBy(Rational divisor) const {
  std::optional<Rational> inverse = Rational::make(divisor.denominator, divisor.numerator);
  return inverse ? *this * Poly(*inverse) : invalid();
}

Poly Poly::power(int64_t exponent) const {
  if (exponent < 0 || exponent > kMaxDegree)
    return invalid();
  Poly result(1);
  for (int64_t i = 0; i < exponent && result.ok; ++i)
    result = result * *this;
  return result;
}

std::optional<Rational> Poly::evaluate(const std::map<std::string, int64_t> &values) const {
  if (!ok)
    return std::nullopt;
  Rational sum;
  for (const auto &[monomial, coefficient] : terms) {
    std::optional<Rational> term = coefficient;
    for (const auto &[name, exponent] : monomial) {
      auto value = values.find(name);
      if (value == values.end())
        return std::nullopt;
      for (uint32_t i = 0; i < exponent && term; ++i)
        term = times(*term, {value->second, 1});
    }
    std::optional<Rational> next = term ? plus(sum, *term) : std::nullopt;
    if (!next)
      return std::nullopt;
    sum = *next;
  }
  return sum;
}

std::optional<std::string> Poly::missing(const std::map<std::string, int64_t> &values) const {
  for (const auto &[monomial, coefficient] : terms)
    for (const auto &[name, exponent] : monomial)
      if (!values.contains(name))
        return name;
  return std::nullopt;
}

std::string Poly::text(const Monomial &monomial, Rational coefficient) {
  std::string result;
  if (coefficient.numerator != 1 || monomial.empty())
    result = fmt::format("{}", coefficient.numerator);
  for (const auto &[name, exponent] : monomial)
    // n*n reads better than n^2, n^5 better than five factors.
    for (uint32_t i = 0, times = exponent == 2 ? 2 : 1; i < times; ++i)
      result +=
          fmt::format("{}{}{}", result.empty() ? "" : "*", name, exponent > 2 ? fmt::format("^{}", exponent) : "");
  if (coefficient.denominator != 1)
    result += fmt::format("/{}", coefficient.denominator);
  return result;
}

std::string Poly::text() const {
  if (!ok)
    return "?";
  std::string result;
  for (const auto &[monomial, coefficient] : terms) {
    bool negative = coefficient.numerator < 0;
    std::string_view sign = result.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    Rational magnitude{negative ? -coefficient.numerator : coefficient.numerator, coefficient.denominator};
    result += fmt::format("{}{}", sign, text(monomial, magnitude));
  }
  return result.empty() ? "0" : result;
}

std::string text(const PolyShape &shape) {
  std::string result;
  for (const Poly &size : shape)
    result += fmt::format("{}{}", result.empty() ? "" : ", ", size.text());
  return fmt::format("[{}]", result);
}

} // namespace yaglom
