// Instances: every tensor of an attention with its name and shape.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/Frontend.h"

#include <algorithm>

using namespace yaglom;
using namespace yaglom::test;

namespace {

using Sizes = std::vector<int64_t>;

/// Keeps the spec alive beside its instance.
struct Bound {
  Spec spec;
  Instance instance;
};

Bound bind(const std::string &text, const std::string &name, const DimValues &values) {
  Spec spec = Spec::parse(text, "t.phi").value();
  Instance instance = instantiate(spec.file(), name, values).value();
  return {std::move(spec), std::move(instance)};
}

Bound bindFile(const std::string &path, const std::string &name, const DimValues &values) {
  Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR + path).value();
  Instance instance = instantiate(spec.file(), name, values).value();
  return {std::move(spec), std::move(instance)};
}

} // namespace

TEST_CASE("an instance lists inputs and params of flexformer_n in order") {
  Bound bound =
      bindFile("/examples/specs/flexformer_n.phi", "flexformer_n_attention", {{"d", 16}, {"e", 12}, {"n", 8}});
  const Instance &i = bound.instance;
  REQUIRE(i.inputs.size() == 3);
  CHECK(i.inputs[0].name == "Q");
  CHECK(i.inputs[0].shape == Sizes{16});
  CHECK(i.inputs[1].side == Side::Key);
  CHECK(i.inputs[2].shape == Sizes{12});
  CHECK(i.output == Sizes{12});
  REQUIRE(i.parameters.size() == 4);
  CHECK(i.parameters[0].name == "flexformer_n.W1");
  CHECK(i.parameters[0].shape == Sizes{8, 16});
  CHECK(i.parameters[0].options.at("scale") == Approx(0.5));
  CHECK(i.parameters[0].draw->sampler.name == "gaussian");
  CHECK(i.parameters[3].name == "flexformer_n.tau");
  CHECK(i.parameters[3].shape.empty());
  CHECK(i.parameters[3].initial != nullptr);
  CHECK(i.parameters[3].dims.at("d") == 16);
  CHECK(i.draws.empty());
}

TEST_CASE("an instance of fska has a pair, the flow's parameters and the loss") {
  Bound bound = bindFile("/examples/specs/fska.phi", "fska_causal", {{"d", 5}, {"e", 4}, {"M", 12}});
  const Instance &i = bound.instance;
  REQUIRE(i.draws.size() == 1);
  CHECK(i.draws[0].names == std::vector<std::string>{"fska.W1", "fska.W2"});
  CHECK(i.draws[0].noiseName() == "fska.W1.noise");
  CHECK(i.draws[0].sampler == "flow");
  CHECK(i.draws[0].kind == "realnvp");
  CHECK(i.draws[0].rows == 6);
  CHECK(i.draws[0].width == 10);
  CHECK(i.draws[0].noiseWidth == 10);
  REQUIRE(i.samplers.size() == 2);
  CHECK(i.samplers[0].name == "flow");
  CHECK(i.samplers[0].width == 10);
  CHECK(i.samplers[0].options.at("layers") == 4);
  CHECK(i.samplers[1].name == "ngsm");
  CHECK(i.samplers[1].width == 10);
  CHECK(i.samplers[0].parameters.size() == 32);
  REQUIRE(i.losses.size() == 1);
  CHECK(i.losses[0].name == "fska_prior");
  CHECK(i.losses[0].samples == 128);
  CHECK_FALSE(i.losses[0].shared);
  auto find = [&](const std::string &name) {
    auto found = std::find_if(i.parameters.begin(), i.parameters.end(), [&](auto &p) { return p.name == name; });
    REQUIRE(found != i.parameters.end());
    return found->shape;
  };
  CHECK(find("flow.0.scale.W0") == Sizes{64, 5});
  CHECK(find("flow.3.shift.b1") == Sizes{5});
  CHECK(find("ngsm.mu1") == Sizes{10, 5});
  CHECK(find("ngsm.rho") == Sizes{10});
}

TEST_CASE("a sampler of an odd width splits its rows as the language says") {
  Bound bound = bind("sampler flow = realnvp(layers = 2, hidden = 3)\nmap f(x) { draw W: [4, d] ~ flow return W @ x }\n"
                     "attention a(Q; K, V) = linear(f(Q), f(K), V)\n",
                     "a", {{"d", 5}, {"e", 1}});
  const Instance &i = bound.instance;
  CHECK(i.parameters.at(0).name == "flow.0.scale.W0");
  CHECK(i.parameters.at(0).shape == Sizes{3, 2});
  CHECK(i.parameters.at(2).shape == Sizes{3, 3});
  CHECK(i.parameters.at(8).name == "flow.1.scale.W0");
  CHECK(i.parameters.at(8).shape == Sizes{3, 3});
}

TEST_CASE("a map of its own dimension names is bound where it is applied") {
  Bound bound = bind("map f(x: [n]) { draw W: [n, n] ~ gaussian(scale = 1/n) return W @ x }\n"
                     "attention a(Q; K, V) = linear(f([Q; Q]), f([K; K]), V)\n",
                     "a", {{"d", 3}, {"e", 2}});
  CHECK(bound.instance.draws.at(0).rows == 6);
  CHECK(bound.instance.draws.at(0).options.at("scale") == Approx(1.0 / 6));
  CHECK(bound.instance.maps.at(0).name == "f");
  CHECK(bound.instance.maps.at(0).dims.at("n") == 6);
}

TEST_CASE("an attention owns tensors of its own, and inputs may be scalars") {
  Bound bound = bindFile("/examples/specs/rfa.phi", "rfa_gated", {{"d", 4}, {"e", 4}});
  CHECK(bound.instance.inputs.at(3).name == "g");
  CHECK(bound.instance.inputs.at(3).shape.empty());
  Bound retention = bindFile("/examples/specs/retention.phi", "retention", {{"d", 4}, {"e", 4}});
  CHECK(retention.instance.parameters.at(0).name == "retention.gamma");
}

TEST_CASE("a map that is applied several times owns one set, one that is not applied none") {
  Bound bound = bind("map f(x) { param b: [d] = 0 return x + b }\nmap g(x) { param c: [d] = 0 return x + c }\n"
                     "attention a(Q; K, V) = linear(f(f(Q)), f(K), V)\n",
                     "a", {{"d", 3}, {"e", 2}});
  CHECK(bound.instance.parameters.size() == 1);
}

TEST_CASE("a declared sampler without parameters may start a param") {
  Bound bound = bind("dim s = 3\nsampler wide = gaussian(scale = s)\nmap f(x) { param W: [d, d] ~ wide return W @ x }\n"
                     "attention a(Q; K, V) = linear(f(Q), f(K), V)\n",
                     "a", {{"d", 3}, {"e", 2}, {"s", 5}});
  CHECK(bound.instance.parameters.at(0).draw->sampler.name == "gaussian");
  CHECK(bound.instance.parameters.at(0).options.at("scale") == 5);
}

TEST_CASE("a loss against an undeclared gaussian lists it with the width of the other") {
  Bound bound = bind("shared sampler mix = mixture(components = 2)\nmap f(x) { draw W: [4, d] ~ mix return W @ x }\n"
                     "attention a(Q; K, V) = linear(f(Q), f(K), V)\nloss r = kl(mix, gaussian, samples = 8)\n",
                     "a", {{"d", 3}, {"e", 2}});
  REQUIRE(bound.instance.samplers.size() == 2);
  CHECK(bound.instance.samplers[1].name == "gaussian");
  CHECK(bound.instance.samplers[1].width == 3);
  CHECK(bound.instance.losses.at(0).shared);
  CHECK(bound.instance.parameters.at(0).shared);
}

TEST_CASE("an attention may be instantiated at the width of its own names") {
  Bound bound = bind("attention a(X: [w]; Y: [w], V: [2*w]) = linear(X, Y, V)\n", "a", {{"w", 3}});
  CHECK(bound.instance.output == Sizes{6});
}
