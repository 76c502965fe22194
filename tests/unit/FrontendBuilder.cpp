// The C++ builder: the same tree as the text, errors at the user's line.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/Frontend.h"

#include <limits>

using namespace yaglom;
using namespace yaglom::test;

namespace {

/// "/path/FrontendBuilder.cpp:12: error: "
std::string at(int line, const char *what = "error") {
  return std::string(__FILE__) + ":" + std::to_string(line) + ": " + what + ": ";
}

std::string checked(Spec &spec) {
  Result<void> result = spec.check();
  return result ? spec.warnings() : result.error().what();
}

Spec performer() {
  Spec spec;
  Dim m = spec.dim("m", 64);
  Map favor = spec.map("favor", [&](MapScope &f, Expr x) {
    f.returns({m});
    Expr W = f.draw("W", {m, f.d()}, sampler::orthogonal());
    Expr u = f.let("u", x / pow(f.d(), Expr(1) / 4));
    return exp(matmul(W, u) - pow(norm(u), 2) / 2) / sqrt(m);
  });
  spec.attention("performer",
                 [&](AttentionScope &a) { return linear(favor(a.Q), favor(a.K), a.V).causal().normalize(); });
  return spec;
}

} // namespace

TEST_CASE("the builder makes the tree that the text makes") {
  std::string text = "dim m = 64\n"
                     "map favor(x) -> [m] {\n"
                     "  draw W: [m, d] ~ orthogonal\n"
                     "  let u = x / d^(1 / 4)\n"
                     "  return exp(W @ u - |u|^2 / 2) / sqrt(m)\n"
                     "}\n"
                     "attention performer(Q; K, V) = linear(favor(Q), favor(K), V) with causal, normalize\n";
  Spec spec = performer();
  CHECK(checked(spec).empty());
  CHECK(spec.print() == text);
  CHECK(printed(text) == text);
}

TEST_CASE("the builder has every construct of the language") {
  Spec spec;
  Dim n = spec.dim("n", 4);
  Sampler flow = spec.sampler("flow", sampler::realnvp(2, 8));
  Sampler mix = spec.sharedSampler("mix", sampler::mixture(2 * n));
  Map f = spec.map("f", {"x", {"y", {n}}}, [&](MapScope &s, const std::vector<Expr> &args) {
    Expr a = s.param("a", {}, 1 - pow(2, -5 - head()));
    Expr b = s.sharedParam("b", {n, s.d()}, sampler::gaussian(0.5));
    auto [A, B] = s.drawPair("A", "B", {n, s.d()}, flow);
    Expr C = s.sharedDraw("C", {n, s.d()}, mix);
    auto [u, v] = s.split("u", "v", stack({args[0], args[0]}));
    Expr rows = matmul((A + B) * 0.5, u) + matmul(b, v) - matmul(C, args[0]);
    return relu(a * rows + args[1]) * cos(pos() / len() * pi());
  });
  spec.attention("first", [&](AttentionScope &a) {
    Expr g = a.keyInput("g", {});
    Expr G = a.queryInput("G", {a.e()});
    Expr w = a.param("w", {n}, 1);
    return G * linear(f(a.Q, w), f(a.K, w), a.V).causal().logDecay(-g).mask(g).normalizeSigned(1e-3);
  });
  spec.attention("second", [&](AttentionScope &a) { return softmaxAttention(a.Q, a.K, a.V).scale(2); });
  spec.loss("r", flow, sampler::gaussian(), 16);
  CHECK(checked(spec).empty());
  CHECK(spec.print() == "dim n = 4\n"
                        "sampler flow = realnvp(layers = 2, hidden = 8)\n"
                        "shared sampler mix = mixture(components = 2 * n)\n"
                        "map f(x, y: [n]) {\n"
                        "  param a: [] = 1 - 2^(-5 - head)\n"
                        "  shared param b: [n, d] ~ gaussian(scale = 0.5)\n"
                        "  draw (A, B): [n, d] ~ flow\n"
                        "  shared draw C: [n, d] ~ mix\n"
                        "  let (u, v) = split([x; x])\n"
                        "  return relu(a * ((A + B) * 0.5 @ u + b @ v - C @ x) + y) * cos(pos / len * pi)\n"
                        "}\n"
                        "attention first(Q, G: [e]; K, V, g: []) {\n"
                        "  param w: [n] = 1\n"
                        "  return G * (linear(f(Q, w), f(K, w), V) with causal, log_decay = -g, mask = g, "
                        "normalize(signed = 0.001))\n"
                        "}\n"
                        "attention second(Q; K, V) = softmax_attention(Q, K, V) with scale = 2\n"
                        "loss r = kl(flow, gaussian, samples = 16)\n");
  CHECK(printed(spec.print()) == spec.print());
  CHECK(instantiate(spec.file(), "first", {{"d", 3}, {"e", 2}}));
}

TEST_CASE("a mistake in C++ points at the user's file and line") {
  Spec spec;
  Dim m = spec.dim("m", 8);
  int declared = 0, used = 0;
  spec.map("f", [&](MapScope &f, Expr x) {
    declared = __LINE__ + 1;
    Expr W = f.draw("W", {m, f.d()}, sampler::gaussian());
    used = __LINE__ + 1;
    Expr w = matmul(W, stack({x, -x}));
    return w;
  });
  CHECK(checked(spec) == at(used) + "cannot contract [m, d] with [2*d]: d is not 2*d\n" + at(declared, "note") +
                             "'W' is declared here\n");
}

TEST_CASE("operators know their line too") {
  Spec spec;
  int line = 0;
  spec.attention("a", [&](AttentionScope &a) {
    line = __LINE__ + 1;
    Expr mixed = a.Q * a.K;
    return linear(mixed, a.K, a.V);
  });
  CHECK(checked(spec) ==
        at(line) + "mixes a query-side value with a key-side value; only linear(...) may combine them\n");
}

TEST_CASE("a spec that was built is checked when it is instantiated") {
  Spec spec;
  int line = __LINE__ + 1;
  spec.attention("a", [&](AttentionScope &a) { return linear(a.Q, a.K, call("softmx", {a.V})); });
  Result<Instance> instance = instantiate(spec.file(), "a", {{"d", 2}, {"e", 2}});
  REQUIRE_FALSE(instance);
  CHECK(instance.error().what() == at(line) + "unknown function 'softmx'; did you mean 'softmax'?\n");
}

TEST_CASE("what cannot be in a tree is reported like any mistake") {
  Spec names;
  names.dim("my dim", 3);
  CHECK(contains(checked(names), "error: 'my dim' cannot be a name"));
  Spec keyword;
  keyword.dim("map", 3);
  CHECK(contains(checked(keyword), "error: 'map' cannot be a name"));
  Spec infinite;
  infinite.map("f", [](MapScope &, Expr x) { return x * std::numeric_limits<double>::infinity(); });
  CHECK(contains(checked(infinite), "error: numbers are finite, found inf"));
  Spec empty;
  empty.map("f", [](MapScope &, Expr) { return stack({}); });
  CHECK(contains(checked(empty), "error: a stack has at least one entry"));
  Spec nested;
  nested.map("f", [&](MapScope &, Expr x) { return nested.map("g", [](MapScope &, Expr y) { return y; })(x); });
  CHECK(contains(checked(nested), "error: the body of a declaration cannot add another declaration to the spec"));
}

TEST_CASE("expressions that grow without bound are refused, not followed") {
  Spec doubled;
  doubled.map("f", [](MapScope &, Expr x) {
    for (int i = 0; i < 60; ++i)
      x = x + x;
    return x;
  });
  CHECK(contains(checked(doubled), "error: the expression has more than 100000 operations; name its parts with let"));
  Spec deep;
  deep.map("f", [](MapScope &, Expr x) {
    for (int i = 0; i < 100000; ++i)
      x = 1 + x;
    return x;
  });
  CHECK(contains(checked(deep), "error: the expression is too deep"));
}

TEST_CASE("copies of a spec do not share what is added later") {
  Spec spec;
  spec.dim("m", 3);
  Spec copy = spec;
  copy.dim("n", 4);
  CHECK(spec.print() == "dim m = 3\n");
  CHECK(copy.print() == "dim m = 3\ndim n = 4\n");
}
