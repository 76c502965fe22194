// Sizes as polynomials.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Dims.h"
#include "tests/unit/Catch.h"

using namespace yaglom;

namespace {
const Poly m = Poly::name("m"), n = Poly::name("n");
}

TEST_CASE("two sizes are equal iff they are the same polynomial") {
  CHECK(m + m == Poly(2) * m);
  CHECK((m + n) * (m - n) == m * m - n * n);
  CHECK(m.dividedBy({2, 1}) + m.dividedBy({2, 1}) == m);
  CHECK(m - m == Poly(0));
  CHECK_FALSE(m == n);
  CHECK_FALSE(m * n == m + n);
  CHECK(m * n == n * m);
  CHECK((m + n).power(3) == (m + n) * (m + n) * (m + n));
}

TEST_CASE("sizes print as they are written") {
  CHECK((Poly(2) * m).text() == "2*m");
  CHECK((m + Poly(1)).text() == "m + 1");
  CHECK(m.dividedBy({2, 1}).text() == "m/2");
  CHECK((Poly(3) * m).dividedBy({4, 1}).text() == "3*m/4");
  CHECK((n * n).text() == "n*n");
  CHECK(n.power(3).text() == "n^3");
  CHECK((Poly(1) + m + m * m).text() == "m*m + m + 1");
  CHECK((Poly(1) - m).text() == "-m + 1");
  CHECK((m - n.dividedBy({2, 1})).text() == "m - n/2");
  CHECK(Poly().text() == "0");
  CHECK(text(PolyShape{Poly(2) * m, n}) == "[2*m, n]");
  CHECK(text(PolyShape{}) == "[]");
}

TEST_CASE("a bound size is an exact fraction") {
  CHECK(m.dividedBy({2, 1}).evaluate({{"m", 7}}) == Rational{7, 2});
  CHECK((m * m + n).evaluate({{"m", 3}, {"n", 4}}) == Rational{13, 1});
  CHECK_FALSE(m.evaluate({{"n", 3}}).has_value());
  CHECK(m.missing({{"n", 3}}) == "m");
  CHECK_FALSE(m.missing({{"m", 3}}).has_value());
  CHECK(Poly(*Rational::make(6, -4)).constant() == Rational{-3, 2});
  CHECK_FALSE(m.constant().has_value());
}

TEST_CASE("sizes beyond all use are invalid instead of wrong") {
  Poly large(INT64_MAX);
  CHECK(large.valid());
  CHECK_FALSE((large + large).valid());
  CHECK_FALSE((large * large).valid());
  CHECK_FALSE(m.power(65).valid());
  CHECK_FALSE(m.dividedBy({0, 1}).valid());
  CHECK_FALSE((m + Poly::invalid()).valid());
  Poly product(1);
  for (int i = 0; i < 7; ++i)
    product = product * (Poly::name("v" + std::to_string(i)) + Poly(1));
  CHECK_FALSE(product.valid()); // 128 terms
  CHECK_FALSE((m * m).evaluate({{"m", INT64_MAX}}).has_value());
}

TEST_CASE("only short binary fractions become sizes") {
  CHECK(Rational::from(0.5) == Rational{1, 2});
  CHECK(Rational::from(3) == Rational{3, 1});
  CHECK_FALSE(Rational::from(0.1).has_value());
  CHECK_FALSE(Rational::from(1e300).has_value());
}
