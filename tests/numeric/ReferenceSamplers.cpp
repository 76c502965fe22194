// Samplers in the reference: initial values, draws, densities and kl beyond the golden cases.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/Case.h"

#include "tests/unit/Catch.h"

#include <cmath>

using namespace yaglom;
using namespace yaglom::tests;
using reference::Tensors;

namespace {

/// An attention that draws W: [rows, width] from `sampler`, beside further declarations.
Case drawing(const std::string &declarations, const std::string &draw, int64_t heads = 2) {
  Case c(declarations + "  map f(x) { " + draw + " return W @ x }  attention a(Q; K, V) = linear(f(Q), f(K), V)");
  c.tensors = reference::initialParameters(c.instance, heads, 5);
  c.tensors.merge(reference::noise(c.instance, heads, 5));
  return c;
}

double lossOf(const Case &c, int64_t heads = 1) { return reference::loss(c.instance, "r", c.tensors, heads).data[0]; }

/// A case with loss r = kl(p, q) where the map draws from p.
Case divergence(const std::string &declarations, const std::string &call, const std::string &draw) {
  return drawing(declarations + "  loss r = kl(" + call + ")", draw, 1);
}

void randomize(Case &c, double scale) {
  for (const ParameterInfo &parameter : c.instance.parameters) {
    const NormalStream stream(3, parameter.name, 0);
    for (std::size_t i = 0; i < c.tensors.at(parameter.name).data.size(); ++i)
      c.tensors.at(parameter.name).data[i] += scale * stream(i);
  }
}

} // namespace

TEST_CASE("initial values may use head, heads, index, eye and earlier params") {
  Case c("attention a(Q; K, V) { param g: [] = 1 - 2^(-5 - head)  param h: [d] = index / heads  param M: [d, d] = eye "
         "param N: [2, d] = h * 10 + 1  shared param s: [d] = index  shared param t: [d] = s + 1 "
         "return linear(Q * t * s * h, M @ K + sum(N @ K) * g, V) }");
  Tensors<double> t = reference::initialParameters(c.instance, 2, 0);
  CHECK(t.at("a.g").data == std::vector<double>{1 - 1.0 / 32, 1 - 1.0 / 64});
  CHECK(t.at("a.h").data == std::vector<double>{0, 0.5, 1, 0, 0.5, 1});
  CHECK(t.at("a.M").data == std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  CHECK(t.at("a.N").data == std::vector<double>{1, 6, 11, 1, 6, 11, 1, 6, 11, 1, 6, 11});
  CHECK(t.at("a.s").shape == std::vector<int64_t>{3});
  CHECK(t.at("a.t").data == std::vector<double>{1, 2, 3});
}

TEST_CASE("a param that starts as a sample uses the generator under its own name") {
  Case c("map f(x) { param W: [4, d] ~ gaussian(scale = d^(-1/4)) return W @ x } attention a(Q; K, V) = linear(f(Q), "
         "f(K), V)");
  Tensors<double> t = reference::initialParameters(c.instance, 2, 7);
  const NormalStream second(7, "f.W", 1);
  for (std::size_t i = 0; i < 12; ++i)
    CHECK(t.at("f.W").data[12 + i] == Approx(std::pow(3, -0.25) * second(i)).epsilon(1e-15));
}

TEST_CASE("noise uses the generator under its own name, and shared noise has no heads") {
  Case c = drawing("", "draw W: [4, d] ~ gaussian");
  CHECK(c.tensors.at("f.W.noise").shape == std::vector<int64_t>{2, 4, 3});
  CHECK(c.tensors.at("f.W.noise").data[12 + 5] == NormalStream(5, "f.W.noise", 1)(5));
  Case shared = drawing("", "shared draw W: [4, d] ~ gaussian");
  CHECK(shared.tensors.at("f.W.noise").shape == std::vector<int64_t>{4, 3});
}

TEST_CASE("a supplied draw overrides the sampler and needs no noise") {
  Case c = drawing("", "draw W: [4, d] ~ gaussian(scale = 2)");
  CHECK(reference::draws(c.instance, c.tensors, 2).at("f.W").data[3] == 2 * c.tensors.at("f.W.noise").data[3]);
  c.tensors.erase("f.W.noise");
  CHECK_THROWS_WITH(reference::draws(c.instance, c.tensors, 2), "tensor 'f.W.noise' is missing");
  c.set("f.W", {2, 4, 3}, std::vector<double>(24, 7.0));
  CHECK(reference::draws(c.instance, c.tensors, 2).at("f.W").data[23] == 7);
}

TEST_CASE("orthogonal rows are orthogonal in their block and as long as their noise") {
  Case c = drawing("", "draw W: [7, d] ~ orthogonal(scale = 0.5)", 1);
  const std::vector<double> w = reference::draws(c.instance, c.tensors, 1).at("f.W").data,
                            &z = c.tensors.at("f.W.noise").data;
  const auto product = [](const std::vector<double> &x, std::size_t i, const std::vector<double> &y, std::size_t j) {
    return x[3 * i] * y[3 * j] + x[3 * i + 1] * y[3 * j + 1] + x[3 * i + 2] * y[3 * j + 2];
  };
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(product(w, i, w, i) == Approx(product(z, i, z, i) / 4).epsilon(1e-13));
    CHECK(product(w, i, z, i) > 0); // R's diagonal is positive
    for (std::size_t j = i / 3 * 3; j < i; ++j)
      CHECK(product(w, i, w, j) == Approx(0).margin(1e-14));
  }
  CHECK(product(w, 3, z, 3) == Approx(product(z, 3, z, 3) / 2)); // the first row of a block keeps its direction
}

TEST_CASE("rows belong to components in proportion to the weights") {
  Case c = drawing("sampler s = mixture(components = 3)", "draw W: [8, d] ~ s", 1);
  c.set("s.alpha", {1, 3}, {std::log(1.0), std::log(2.0), std::log(1.0)});
  c.set("s.mu", {1, 3, 3}, {1, 1, 1, 2, 2, 2, 3, 3, 3}).set("s.s", {1, 3, 3}, std::vector<double>(9, -800.0));
  const std::vector<double> w = reference::draws(c.instance, c.tensors, 1).at("f.W").data;
  std::vector<double> first;
  for (std::size_t i = 0; i < 8; ++i)
    first.push_back(w[3 * i]);
  CHECK(first == std::vector<double>{1, 1, 2, 2, 2, 2, 3, 3});
}

TEST_CASE("a fresh flow permutes its noise and a flow of one entry works") {
  Case c = drawing("sampler s = realnvp(layers = 3, hidden = 4)", "draw W: [5, d] ~ s", 1);
  const std::vector<double> w = reference::draws(c.instance, c.tensors, 1).at("f.W").data,
                            &z = c.tensors.at("f.W.noise").data;
  CHECK(std::vector<double>(w.begin(), w.begin() + 3) == std::vector<double>{z[1], z[2], z[0]});
  Case one("sampler s = realnvp(layers = 2, hidden = 4)  loss r = kl(s, gaussian, samples = 9) "
           "map f(x) { draw W: [5, d] ~ s return W @ x } attention a(Q; K, V) = linear(f(Q), f(K), V)",
           {{"d", 1}, {"e", 1}});
  one.fill(1, 1, 3);
  CHECK(lossOf(one) == Approx(0).margin(1e-15));
  randomize(one, 0.3);
  CHECK(std::isfinite(one.output()[0]));
  CHECK(std::fabs(lossOf(one)) > 1e-3);
}

TEST_CASE("a flow's density inverts its samples") {
  Case c = divergence("sampler s = realnvp(layers = 5, hidden = 8)", "s, s, samples = 50", "draw W: [5, d] ~ s");
  randomize(c, 0.4);
  CHECK(lossOf(c) == Approx(0).margin(1e-12));
}

TEST_CASE("a mixture diverges from itself by nothing") {
  Case c = divergence("sampler s = mixture(components = 4)", "s, s, samples = 50", "draw W: [5, d] ~ s");
  randomize(c, 0.5);
  CHECK(lossOf(c) == 0);
  Case pair = divergence("sampler s = spectral_mixture(components = 4)", "s, s, samples = 50",
                         "draw (W, U): [5, d] ~ s let y = U @ x");
  randomize(pair, 0.5);
  CHECK(lossOf(pair) == 0);
}

TEST_CASE("kl of Gaussians agrees with its closed form") {
  // log 2 + (1/2)(1/4 - 1) + m^2 / 8 for each entry, from N(0, 1) to N(m, 4).
  Case c = divergence("sampler s = mixture(components = 1)", "gaussian, s, samples = 40000", "draw W: [5, d] ~ s");
  c.set("s.mu", {1, 1, 3}, {1, -2, 0}).set("s.s", {1, 1, 3}, std::vector<double>(3, std::log(std::exp(2.0) - 1)));
  CHECK(lossOf(c) == Approx(3 * (std::log(2.0) - 0.375) + 5.0 / 8).margin(0.03));
}

TEST_CASE("a mixture's loss weighs components, not samples") {
  // Means far apart: log p = log weight - log of the Gaussian's mass; the weights enter by their share alone.
  Case c = divergence("sampler s = mixture(components = 2)", "s, gaussian, samples = 4000", "draw W: [5, d] ~ s");
  c.set("s.alpha", {1, 2}, {0, std::log(3.0)}).set("s.mu", {1, 2, 3}, {20, 0, 0, 0, 20, 0});
  const double entropy = 0.25 * std::log(0.25) + 0.75 * std::log(0.75);
  CHECK(lossOf(c) == Approx(entropy + 200).epsilon(0.01));
  // A component without samples counts 0: three quarters remain of samples = 1.
  Case one = divergence("sampler s = mixture(components = 2)", "s, gaussian, samples = 1", "draw W: [5, d] ~ s");
  one.set("s.alpha", {1, 2}, {0, std::log(3.0)}).set("s.mu", {1, 2, 3}, {20, 0, 0, 0, 20, 0});
  const std::vector<double> &z = one.tensors.at("r.noise").data;
  CHECK(lossOf(one) == Approx(0.75 * (std::log(0.75) + 200 + 20 * z[1])).epsilon(1e-12));
}

TEST_CASE("a correlated pair has the density of its samples") {
  // One component at the origin: the density of (w1, w2) = (z1, r z1 + sqrt(1 - r^2) z2) is that of z over sqrt(1 - r^2).
  Case c = divergence("sampler s = spectral_mixture(components = 1)", "s, gaussian, samples = 7",
                      "draw (W, U): [5, d] ~ s let y = U @ x");
  c.set("s.rho", {1, 1}, {0.8}).set("s.mu1", {1, 1, 3}, {0, 0, 0}).set("s.mu2", {1, 1, 3}, {0, 0, 0});
  const std::vector<double> &z = c.tensors.at("r.noise").data;
  const double r = std::tanh(0.8), root = std::sqrt(1 - r * r);
  double expected = 0;
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t k = 0; k < 3; ++k) {
      const double z1 = z[6 * i + k], z2 = z[6 * i + 3 + k], w2 = r * z1 + root * z2;
      expected += (-z2 * z2 / 2 - std::log(root) + w2 * w2 / 2) / 7;
    }
  CHECK(lossOf(c) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("a loss of shared samplers is one value") {
  Case c = drawing("shared sampler s = mixture(components = 2)  loss r = kl(s, gaussian, samples = 8)",
                   "draw W: [5, d] ~ s");
  CHECK(reference::loss(c.instance, "r", c.tensors, 2).shape == std::vector<int64_t>{1});
  CHECK(c.tensors.at("s.mu").shape == std::vector<int64_t>{2, 3});
  CHECK_THROWS_WITH(reference::loss(c.instance, "q", c.tensors, 2), "the attention has no loss 'q'");
}
