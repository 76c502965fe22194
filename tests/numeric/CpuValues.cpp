// One small map each: what was wrong once, and what random programs seldom make.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <cmath>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr int64_t kD = 6, kE = 4;

/// `body` is that of map f(x: [d]), with dims n = 7, m = 17.
void compareBody(const std::string &body, Sizes sizes = {1, 2, 37}, double scale = 0.7) {
  INFO(body);
  const std::string text = "dim n = 7\ndim m = 17\nmap f(x: [d]) {\n" + body +
                           "\n}\nattention past(Q; K, V) = linear(f(Q), f(K), V) with causal\n"
                           "attention both(Q; K, V) = linear(f(Q), f(K), V)\n";
  for (const char *name : {"past", "both"}) {
    const Kernel reference = compiled(text, name, options(DType::f64, kD, kE, Target::reference()));
    const Data data = makeData(reference, sizes, DType::f64, scale);
    const std::vector<double> expected = run(reference, data);
    REQUIRE(countNonFinite(expected) == 0);
    CHECK(relativeError(run(compiled(text, name, options(DType::f64, kD, kE)), data), expected) <
          conditioned(reference, data, DType::f64, sizes.rows));
  }
}

const std::string kParams =
    "param a: [n] ~ gaussian  param b: [m] ~ gaussian  param W: [n, m] ~ gaussian(scale = 0.3)  "
    "param s: [] = 0.7  param c: [d] ~ gaussian  param U: [n, 2*d + 5] ~ gaussian(scale = 0.3)\n";

} // namespace

TEST_CASE("values without a side equal the reference", "[slow-on-emulator]") {
  for (const char *result : {
           "outer(a, b) * sum(x)",
           "outer(a, a) * sum(x)",
           "outer(outer(a, a), a) * sum(x)",
           "outer(b, [s; 1])",
           "outer(a, x)",
           "outer(x, a)",
           "[a; s; b] * sum(x)",
           "[outer(a, b); x; s]",
           "unit(a) * sum(x)",
           "unit(0 * a) + sum(x)",
           "softmax(b) * sum(x)",
           "(a - mean(a)) * (sum(x) + max(a) + |a|)",
           "(W @ b) * sum(x)",
           "((W * b) @ b) * sum(x)",
           "tanh(W * b) @ b",
           "(U + U * s) / 2 @ [x; x; 1; s; s; s; s]",
           "x + pos / len",
           "x * len",
           "[pos; len; s; 1]",
           "[s]",
           "a",
           "x - x + 1",
           "outer([sum(x); pos], c) * 0.1",
       })
    compareBody(kParams + "return " + result);
}

TEST_CASE("matrices of a token equal the reference") {
  for (const char *result : {
           "(U * [x; x; 1; s; s; s; s]) @ [x; c; 1; s; s; s; s]",
           "exp(W * (b * x0)) @ b",
           "(W + b * x0) @ (b * x0)",
           "(W * x0) @ b",
           "(W + W * x0) / 2 @ b",
           "(W / (1 + x0 * x0)) @ b",
           "max(W, x0) @ b",
           "tanh((W * x0)) @ (b + x0)",
       })
    compareBody(kParams + "let x0 = mean(x)\nreturn " + result);
}

TEST_CASE("the largest entry of a row is right whatever its size") {
  for (const char *factor : {"1", "1e9", "1e20", "1e200"})
    compareBody("let y = " + std::string(factor) + " * (abs(x) + 1)\nreturn [max(-y) / " + factor + "; max(y) / " +
                factor + "]");
}

TEST_CASE("halves of halves, and stacks of them, equal the reference") {
  compareBody("let (a, b) = split([x; x * x])\nlet (c, d1) = split([b; a])\nreturn [c; a; d1; b * c]");
  compareBody("let (a, b) = split(outer(x, [sum(x); 1]))\nreturn [a; tanh(b)]");
  compareBody("let (a, b) = split([x; 2 * x])\nlet (c, e1) = split([a; b; a; b])\nreturn c * e1");
}

TEST_CASE("a factor of the query divides out of a bare normaliser unless it is 0 or no number") {
  const std::string text = "map f(x: [d]) = relu(sum(x)) * (elu(x) + 1)\n"
                           "map g(x: [d]) = exp(x) / 2 * relu(sum(x))\n"
                           "map h(x: [d]) = (elu(x) + 1) * sqrt(sum(x)) / 3\n"
                           "attention zero(Q; K, V) = linear(f(Q), elu(K) + 1, V) with causal, normalize\n"
                           "attention zero_exp(Q; K, V) = linear(g(Q), exp(K), V) with causal, normalize\n"
                           "attention zero_both(Q; K, V) = linear(f(Q), elu(K) + 1, V) with normalize\n"
                           "attention none(Q; K, V) = linear(h(Q), elu(K) + 1, V) with causal, normalize\n";
  for (const char *name : {"zero", "zero_exp", "zero_both", "none"})
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(name);
      const Kernel reference = compiled(text, name, options(DType::f64, kD, kE, Target::reference()));
      const Data data = makeData(reference, {1, 2, 50}, dtype, 0.7);
      std::vector<double> expected = run(reference, data),
                          found = run(compiled(text, name, options(dtype, kD, kE)), data);
      bool alike = true;
      for (std::size_t i = 0; i < found.size(); ++i) {
        alike &= std::isnan(found[i]) == std::isnan(expected[i]) && (found[i] == 0) == (expected[i] == 0);
        if (std::isnan(expected[i]))
          found[i] = expected[i] = 0;
      }
      CHECK(alike);
      CHECK(relativeError(found, expected) < tolerance(dtype, 50));
    }
}

TEST_CASE("scores of softmax attention may have any size") {
  const std::string text =
      "attention a(Q; K, V) = softmax_attention(Q, K, V) with causal\n"
      "attention b(Q; K, V, m: []) = softmax_attention(Q, K, V) with mask = m - 0.5 - abs(m - 0.5)\n";
  for (const char *name : {"a", "b"})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const double size : {1.0, 1e3, 1e5, 1e8, 1e15}) {
        INFO(name << " size " << size);
        const Kernel reference = compiled(text, name, options(DType::f64, 3, kE, Target::reference()));
        Data data = makeData(reference, {1, 1, 90}, dtype, 1);
        // Scores are integers times the size, all of them negative: far apart or equal.
        for (int64_t i = 0; i < data["K"].size(); ++i) {
          data["Q"].set(i, i % 3 == 0 ? -size : 0);
          data["K"].set(i, i % 3 == 0 ? static_cast<double>(1 + i % 7) : 1);
        }
        const std::vector<double> expected = run(reference, data);
        REQUIRE(rms(expected) > 0.1);
        CHECK(relativeError(run(compiled(text, name, options(dtype, 3, kE)), data), expected) <
              tolerance(dtype, 90, 10));
      }
}
