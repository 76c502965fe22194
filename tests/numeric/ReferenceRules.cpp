// The rules of language.md sections 3 and 4 that the golden cases do not reach: edges, selections, enormous exponents.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/Case.h"

#include "tests/unit/Catch.h"

#include <cmath>
#include <limits>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

using Row = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// d = e = 1.
DimValues scalars() { return {{"d", 1}, {"e", 1}}; }

/// One head, d = e = 1: queries, keys and values as given.
Case line(const std::string &text, const Row &q, const Row &k, const Row &v) {
  Case c(text, scalars());
  const auto n = static_cast<int64_t>(q.size()), m = static_cast<int64_t>(k.size());
  c.set("Q", {1, 1, n, 1}, q).set("K", {1, 1, m, 1}, k).set("V", {1, 1, m, 1}, v);
  return c;
}

void checkClose(const Row &found, const Row &expected, double tolerance = 1e-13) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("entry " << i);
    if (std::isnan(expected[i]))
      CHECK(std::isnan(found[i]));
    else
      CHECK(found[i] == Approx(expected[i]).epsilon(tolerance).margin(1e-300));
  }
}

const std::string kDecayed = "attention a(Q; K, V, g: []) = linear(Q, K, V) with causal, decay = g";
const std::string kLogDecayed = "attention a(Q; K, V, g: []) = linear(Q, K, V) with causal, log_decay = g";

} // namespace

TEST_CASE("a decay weighs key j by the product of the decays after j") {
  Case c = line(kDecayed, {1, 1, 1}, {1, 10, 100}, {1, 1, 1}).set("g", {1, 1, 3}, {7, 0.5, 0.25});
  checkClose(c.output(), {1, 10.5, 102.625});
  c.set("g", {1, 1, 3}, {7, 2, 3});
  checkClose(c.output(), {1, 12, 136});
}

TEST_CASE("a decay of zero forgets and has no gradient") {
  Case c = line(kDecayed, {1, 1, 1}, {1, 10, 100}, {1, 1, 1}).set("g", {1, 1, 3}, {1, 0, 0.5});
  checkClose(c.output(), {1, 10, 105});
  checkClose(c.derivative("g", 1), {0, 0, 0});
  checkClose(c.derivative("g", 2), {0, 0, 10});
}

TEST_CASE("a negative decay gives NaN from there on") {
  Case c = line(kDecayed, {1, 1, 1}, {1, 10, 100}, {1, 1, 1}).set("g", {1, 1, 3}, {1, -0.5, 0.5});
  checkClose(c.output(), {1, kNan, kNan});
  c.set("g", {1, 1, 3}, {-1, 1, 0});
  checkClose(c.output(), {kNan, kNan, kNan});
}

TEST_CASE("a log decay of minus infinity forgets and has no gradient") {
  Case c = line(kLogDecayed, {1, 1, 1}, {1, 10, 100}, {1, 1, 1}).set("g", {1, 1, 3}, {0, -kInfinity, std::log(0.5)});
  checkClose(c.output(), {1, 10, 105});
  checkClose(c.derivative("g", 1), {0, 0, 0});
}

TEST_CASE("log decays never leave the range of numbers") {
  const double step = -700;
  Case c = line("attention a(Q; K, V, g: []) = linear(exp(Q), exp(K), V) with causal, log_decay = g", {0, 0, 0},
                {1400, 0, -1400}, {1, 2, 3})
               .set("g", {1, 1, 3}, {0, step, step});
  // Weights of the last row: e^(1400 - 1400), e^(0 - 700), e^-1400.
  CHECK(c.output()[2] == Approx(1).epsilon(1e-12));
}

TEST_CASE("a masked key is never read") {
  Case c("attention a(Q; K, V, m: [], g: []) = linear(Q, K, V) with causal, normalize, mask = m, decay = g");
  c.fill(1, 1, 5);
  c.set("m", {1, 1, 5}, {1, 0, -2, 0, 1}).set("g", {1, 1, 5}, {0.9, 5, 0.8, -3, 0.7});
  const Row clean = c.output();
  for (std::size_t i : {1u, 3u}) {
    for (std::size_t k = 0; k < 3; ++k)
      c.at("K", 3 * i + k) = kNan;
    c.at("V", 2 * i) = kInfinity;
    c.at("g", i) = kNan;
  }
  checkClose(c.output(), clean);
  checkClose(c.derivative("K", 4), Row(10, 0.0));
  checkClose(c.derivative("m", 0), Row(10, 0.0));
  for (double x : c.derivative("Q", 6))
    CHECK(std::isfinite(x));
}

TEST_CASE("padding equals the sequence without it") {
  const std::string text = "attention a(Q; K, V, m: []) = linear(Q, exp(K), V) with normalize(eps = 0.5), mask = m";
  Case padded = line(text, {1, 2}, {9, 1, 8, 2, 7}, {5, 1, 5, 2, 5}).set("m", {1, 1, 5}, {0, 1, 0, 1, 0});
  Case compact = line(text, {1, 2}, {1, 2}, {1, 2}).set("m", {1, 1, 2}, {1, 1});
  checkClose(padded.output(), compact.output());
}

TEST_CASE("a row without a key is zero with zero gradients") {
  for (const char *form :
       {"normalize", "normalize(eps = 1e-3)", "normalize(clamp = 1e-3)", "normalize(signed = 1e-3)"}) {
    INFO(form);
    Case c("attention a(Q; K, V, m: []) = linear(Q, K, V) with mask = m, " + std::string(form));
    c.fill(1, 1, 2);
    c.set("m", {1, 1, 2}, {0, 0});
    c.at("Q", 0) = kNan;
    checkClose(c.output(), Row(4, 0.0));
    for (const char *name : {"Q", "K", "V", "m"})
      checkClose(c.derivative(name, 1), Row(4, 0.0));
  }
  Case soft("attention a(Q; K, V, m: []) = softmax_attention(Q, K, V) with mask = m");
  soft.fill(1, 1, 2).set("m", {1, 1, 2}, {0, 0});
  checkClose(soft.output(), Row(4, 0.0));
  CHECK(Case("attention a(Q; K, V) = linear(Q, K, V) with normalize").fill(1, 1, 2, 0).output() == Row(4, 0.0));
}

TEST_CASE("empty batches, heads and sequences give empty outputs") {
  const std::string text =
      "map f(x) = [x; pos / len]  attention a(Q; K, V) = linear(f(Q), f(K), V) with causal, normalize";
  CHECK(Case(text).fill(0, 2, 3).output().empty());
  CHECK(Case(text).fill(2, 0, 3).output().empty());
  CHECK(Case(text).fill(2, 2, 0).output().empty());
  CHECK(reference::forward(Case(text).instance, Case(text).fill(2, 3, 0).tensors).shape ==
        std::vector<int64_t>{2, 3, 0, 2});
}

TEST_CASE("each form of normalize divides as the language says") {
  const auto run = [](const std::string &form, double d) {
    return line("attention a(Q; K, V) = linear(Q, K, V) with " + form, {1}, {d}, {3});
  };
  CHECK(run("normalize", 0).output()[0] == 0);
  CHECK(run("normalize", -2).output()[0] == 3);
  CHECK(run("normalize(eps = 0.5)", 2).output()[0] == 6 / 2.5);
  CHECK(run("normalize(clamp = 4)", 2).output()[0] == 1.5);
  CHECK(run("normalize(clamp = 4)", -2).output()[0] == -1.5);
  CHECK(run("normalize(clamp = 4)", 8).output()[0] == 3);
  CHECK(run("normalize(signed = 4)", 2).output()[0] == 1.5);
  CHECK(run("normalize(signed = 4)", -2).output()[0] == 1.5);
  CHECK(run("normalize(signed = 4)", -8).output()[0] == 3);
  CHECK(run("normalize(signed = 4)", 0).output()[0] == 0);
  // Clamped at the threshold itself: the gradient to the key goes through the numerator alone.
  CHECK(run("normalize(clamp = 4)", 4).derivative("K", 0)[0] == 0.75);
  CHECK(run("normalize(signed = 4)", -4).derivative("K", 0)[0] == -0.75);
  CHECK(run("normalize(signed = 4)", 5).derivative("K", 0)[0] == Approx(0).margin(1e-15));
}

TEST_CASE("features with enormous exponents give the value of the formula") {
  const std::string text = "attention a(Q; K, V) = linear(exp(Q), exp(K), V) with causal, normalize";
  Case c = line(text, {1000, -1000, 500}, {-1443, 1443, 1442}, {1, 2, 4});
  const double e = std::exp(-1.0);
  checkClose(c.output(), {1, 2, (2 + 4 * e) / (1 + e)}, 1e-12);
  // The gradient of a softmax: p_j (v_j - O).
  const double share = e / (1 + e);
  CHECK(c.derivative("K", 2)[2] == Approx(share * (4 - (2 + 4 * e) / (1 + e))).epsilon(1e-11));
  CHECK(c.derivative("Q", 2)[2] == Approx(0).margin(1e-12));
}

TEST_CASE("each feature may have its own exponent") {
  Case c("attention a(Q; K, V) = linear(exp(Q), exp(K), V) with normalize", {{"d", 2}, {"e", 1}});
  c.set("Q", {1, 1, 1, 2}, {1000, -1000})
      .set("K", {1, 1, 2, 2}, {-1000, 1000, -1001, 1000})
      .set("V", {1, 1, 2, 1}, {1, 3});
  const double second = std::exp(-1.0) + 1; // e^(1000 - 1001) + e^(-1000 + 1000), against 2
  checkClose(c.output(), {(2 + 3 * second) / (2 + second)}, 1e-12);
}

TEST_CASE("elu plus one keeps its digits far below zero") {
  for (const char *map : {"elu(x) + 1", "1 + elu(x)"}) {
    Case c = line("map f(x) = " + std::string(map) + "  attention a(Q; K, V) = linear(Q, f(K), V) with normalize", {1},
                  {-60, -61}, {0, 1});
    const double e = std::exp(-1.0);
    checkClose(c.output(), {e / (1 + e)});
  }
  Case named = line("map f(x) { let y = elu(x) let z = y return z + 1 }  attention a(Q; K, V) = linear(Q, f(K), V)",
                    {1}, {-60}, {1});
  CHECK(named.output()[0] == Approx(std::exp(-60)).epsilon(1e-14));
}

TEST_CASE("softmax attention stands large scores") {
  Case c = line("attention a(Q; K, V) = softmax_attention(Q, K, V) with scale = 1", {1}, {5000, 4999}, {0, 1});
  const double e = std::exp(-1.0);
  checkClose(c.output(), {e / (1 + e)});
}

TEST_CASE("query heads share key heads") {
  const std::string text = "attention a(Q; K, V) { param g: [] = 1 + head return linear(Q, K * g, V) }";
  Case grouped(text);
  grouped.fill(2, 6, 3, 4, 2);
  Case plain(text);
  plain.fill(2, 6, 3, 4, 6);
  for (const char *name : {"K", "V"}) {
    const reference::Array<double> &source = grouped.tensors.at(name);
    reference::Array<double> &copy = plain.tensors.at(name);
    const std::size_t item = source.data.size() / 4;
    for (std::size_t head = 0; head < 12; ++head)
      for (std::size_t i = 0; i < item; ++i)
        copy.data[head * item + i] = source.data[(head / 6 * 2 + head % 6 / 3) * item + i];
  }
  plain.set("a.g", {6}, {1, 1, 1, 2, 2, 2});
  checkClose(grouped.output(), plain.output());
}

TEST_CASE("positions count from one and len is the longer side") {
  Case c("map f(x) = [pos; len]  attention a(Q; K, V) = linear(f(Q), [0; len / len], V)", scalars());
  c.set("Q", {1, 1, 2, 1}, {5, 5}).set("K", {1, 1, 1, 1}, {3}).set("V", {1, 1, 1, 1}, {1});
  checkClose(c.output(), {2, 2});
  Case p("map f(x) = x * 0 + pos  attention a(Q; K, V) = linear(f(Q), f(K), V) with causal", scalars());
  const Row ones(200, 1.0);
  p.set("Q", {1, 1, 200, 1}, ones).set("K", {1, 1, 200, 1}, ones).set("V", {1, 1, 200, 1}, ones);
  CHECK(p.output()[199] == 200 * 201 * 100);
}

TEST_CASE("a map may be nested, meet two widths, or ignore its input") {
  Case c("map one(x) = 1  map f(x) -> [d + 1] = [x; one(x)]  attention a(Q; K, V) = linear(f(f(Q)), f(f(K)), V)",
         scalars());
  c.set("Q", {1, 1, 1, 1}, {5}).set("K", {1, 1, 1, 1}, {3}).set("V", {1, 1, 1, 1}, {1});
  checkClose(c.output(), {17});
}

TEST_CASE("row functions and the prelude compute what they say") {
  const auto value = [](const std::string &expression) {
    Case c("map f(x) = " + expression + "  attention a(Q; K, V) = linear(f(Q), 1 + 0 * f(K), V)", {{"d", 2}, {"e", 1}});
    c.set("Q", {1, 1, 1, 2}, {3, -4}).set("K", {1, 1, 1, 2}, {1, 2}).set("V", {1, 1, 1, 1}, {1});
    return c.output()[0];
  };
  CHECK(value("[sum(x); 0]") == -1);
  CHECK(value("[mean(x); 0]") == -0.5);
  CHECK(value("[max(x); 0]") == 3);
  CHECK(value("max(x, 1)") == 4);
  CHECK(value("min(x, 1)") == -3);
  CHECK(value("[|x|; 0]") == 5);
  CHECK(value("outer(x, x)") == 1);
  CHECK(value("unit(x)") == Approx(-0.2));
  CHECK(value("unit(0 * x)") == 0);
  CHECK(value("softmax(x)") == Approx(1));
  CHECK(value("silu(x)") == Approx(3 / (1 + std::exp(-3)) - 4 / (1 + std::exp(4))));
  CHECK(value("square(x)") == 25);
}

TEST_CASE("what is missing or misshapen is named") {
  Case c("attention a(Q; K, V) { param g: [] = 1 return linear(Q, K * g, V) with causal }");
  c.fill(1, 2, 3);
  const auto message = [](const Case &bad) {
    try {
      bad.output();
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  Case bad = c;
  bad.tensors.erase("V");
  CHECK(message(bad) == "argument 'V' is missing");
  CHECK(message(Case(c).set("V", {1, 2, 4, 2}, Row(16))) ==
        "argument 'V': expected shape [1, 2, 3, 2], found [1, 2, 4, 2]");
  CHECK(message(Case(c).set("a.g", {3}, Row(3))) == "tensor 'a.g': expected shape [2], found [3]");
  bad = c;
  bad.tensors.erase("a.g");
  CHECK(message(bad) == "tensor 'a.g' is missing");
  CHECK(message(Case(c).fill(1, 2, 3, 4)) == "'causal' needs equal lengths: found 3 queries and 4 keys");
}
