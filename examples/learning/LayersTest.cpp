// Every layer's gradient, of its input and of each weight, against central differences in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "Adam.h"
#include "Block.h"
#include "LanguageModel.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace learning;

namespace {

using Rows = Matrix<double>;
using Weights = std::vector<Learned<double>>;

/// Compares a gradient with (loss(x + h) - loss(x - h)) / 2h at up to twelve entries.
void compare(const std::string &what, double *x, const double *gradient, int64_t size,
             const std::function<double()> &loss) {
  const double h = 1e-5;
  for (int64_t i = 0; i < size; i += std::max<int64_t>(1, size / 12)) {
    const double kept = x[i];
    x[i] = kept + h;
    const double above = loss();
    x[i] = kept - h;
    const double below = loss();
    x[i] = kept;
    INFO(what << "[" << i << "]");
    CHECK(gradient[i] == Approx((above - below) / (2 * h)).epsilon(1e-6).margin(1e-8));
  }
}

/// Checks a layer by the loss sum(layer(x) * c), c random.
void check(Rows x, const std::function<Rows(const Rows &)> &forward, const std::function<Rows(const Rows &)> &backward,
           const Weights &weights) {
  Random random(5);
  Rows c = forward(x);
  c = gaussian<double>(c.rows(), c.cols(), 1, random);
  clearGradients(weights);
  const Rows gradient = backward(c);
  const auto loss = [&] { return (forward(x).array() * c.array()).sum(); };
  compare("input", x.data(), gradient.data(), x.size(), loss);
  for (const Learned<double> &weight : weights) {
    CHECK(weight.gradient().matrix().norm() > 0);
    compare(weight.name, weight.data, weight.sums, weight.size(), loss);
  }
}

/// Moves weights away from initial values such as 0, where mistakes hide.
template <typename Layer>
Weights shaken(Layer &layer, Random &random) {
  Weights weights;
  layer.collect(weights);
  for (const Learned<double> &weight : weights)
    weight.value() += 0.1 * gaussian<double>(weight.size(), 1, 1, random).array();
  return weights;
}

template <typename Layer>
void checkLayer(Layer &layer, int64_t rows, int64_t width, Random &random) {
  check(
      gaussian<double>(rows, width, 1, random), [&](const Rows &x) { return layer.forward(x); },
      [&](const Rows &g) { return layer.backward(g); }, shaken(layer, random));
}

yaglom::Kernel kernelOf(const std::string &file, const std::string &name) {
  const yaglom::Spec spec = yaglom::Spec::parseFile(YAGLOM_SPECS_DIR "/" + file).value();
  return yaglom::compile(spec, name, {.headDim = 6, .valueDim = 4, .dtype = yaglom::DType::f64}).value();
}

} // namespace

TEST_CASE("linear: gradients agree with differences") {
  Random random(1);
  Linear<double> layer("layer", 5, 7, random);
  checkLayer(layer, 4, 5, random);
}

TEST_CASE("layer norm: gradients agree with differences") {
  Random random(2);
  LayerNorm<double> layer("layer", 6);
  checkLayer(layer, 3, 6, random);
}

TEST_CASE("gelu: gradients agree with differences") {
  Random random(3);
  Gelu<double> gelu;
  check(
      gaussian<double>(3, 5, 2, random), [&](const Rows &x) { return gelu.forward(x); },
      [&](const Rows &g) { return gelu.backward(g); }, {});
}

TEST_CASE("shift: tokens move on by one in the right half, and stay within their sequence") {
  Shift<double> shift;
  const Rows x = (Rows(4, 2) << 1, 2, 3, 4, 5, 6, 7, 8).finished();
  CHECK(shift.forward(x, 2) == (Rows(4, 2) << 1, 0, 3, 2, 5, 0, 7, 6).finished());
  CHECK(shift.backward(x) == (Rows(4, 2) << 1, 4, 3, 0, 5, 8, 7, 0).finished());
}

TEST_CASE("embedding: rows that stand at several places gather their gradients") {
  Embedding<double> embedding("table", Rows::Zero(4, 3));
  Weights weights;
  embedding.collect(weights);
  embedding.forward({2, 0, 2});
  embedding.backward((Rows(3, 3) << 1, 2, 3, 10, 20, 30, 100, 200, 300).finished());
  const Rows expected = (Rows(4, 3) << 10, 20, 30, 0, 0, 0, 101, 202, 303, 0, 0, 0).finished();
  CHECK(Eigen::Map<Rows>(weights[0].sums, 4, 3) == expected);
}

TEST_CASE("cross entropy: the value of equal logits, and gradients that agree with differences") {
  const std::vector<int> targets{1, 0, 4};
  CHECK(crossEntropy(Rows(Rows::Constant(3, 5, 1e3)), targets) == Approx(std::log(5.0)));
  Random random(4);
  Rows logits = gaussian<double>(3, 5, 2, random), gradient;
  crossEntropy(logits, targets, &gradient);
  compare("logits", logits.data(), gradient.data(), logits.size(), [&] { return crossEntropy(logits, targets); });
}

TEST_CASE("attention: gradients of rows, projections and kernel parameters agree with differences") {
  const auto [file, name] = GENERATE(table<std::string, std::string>({{"flexformer_n.phi", "flexformer_n_attention"},
                                                                      {"linear_transformer.phi", "linear_transformer"},
                                                                      {"performer.phi", "performer"},
                                                                      {"softmax.phi", "exact"},
                                                                      {"rfa.phi", "rfa_gated"},
                                                                      {"polaformer.phi", "polaformer"},
                                                                      {"samplers.phi", "flow_attention"}}));
  INFO(name);
  Random random(6);
  Attention<double> layer("layer", kernelOf(file, name), 5, {.heads = 2, .seed = 3, .shift = true}, random);
  const auto forward = [&](const Rows &x) {
    layer.draw(); // the flow's weights act through its draws
    return layer.forward(x, 9);
  };
  check(
      gaussian<double>(2 * 9, 5, 1, random), forward, [&](const Rows &g) { return layer.backward(g); },
      shaken(layer, random));
}

TEST_CASE("attention: a bidirectional one is seen to look ahead, a causal one is not") {
  Random random(7);
  CHECK(Attention<double>("layer", kernelOf("softmax.phi", "exact_bidirectional"), 5, {}, random).seesLater(5));
  CHECK_FALSE(Attention<double>("layer", kernelOf("softmax.phi", "exact"), 5, {}, random).seesLater(5));
}

TEST_CASE("language model: gradients agree with differences, all the way down") {
  Random random(8);
  LanguageModel<double> model(kernelOf("flexformer_s.phi", "flexformer_s_attention"), 5,
                              {.layers = 2, .width = 6, .heads = 2, .context = 4}, random);
  const Weights weights = model.learned();
  const Batch batch{{0, 1, 2, 3, 4, 3, 2, 1}, {1, 2, 3, 4, 3, 2, 1, 0}};
  clearGradients(weights);
  CHECK(model.learn(batch) == Approx(model.loss(batch)));
  for (const Learned<double> &weight : weights)
    compare(weight.name, weight.data, weight.sums, weight.size(), [&] { return model.loss(batch); });
}

TEST_CASE("Adam: the first step moves every weight by the rate, against its gradient") {
  Weight<double> weight("weight", Rows::Constant(1, 3, 5));
  weight.gradient << 1e-3, -20, 4;
  Adam<double> adam({weight.learned()});
  adam.step(0.25);
  CHECK(weight.value.isApprox((Rows(1, 3) << 4.75, 5.25, 4.75).finished(), 1e-4));
}

TEST_CASE("clipping: gradients of all tensors together are scaled to the limit") {
  Weight<double> a("a", Rows::Zero(1, 1)), b("b", Rows::Zero(1, 1));
  a.gradient << 3;
  b.gradient << 4;
  CHECK(clipGradients<double>({a.learned(), b.learned()}, 10) == Approx(5));
  CHECK(a.gradient(0) == 3);
  CHECK(clipGradients<double>({a.learned(), b.learned()}, 1) == Approx(5));
  CHECK(a.gradient(0) == Approx(0.6));
  CHECK(b.gradient(0) == Approx(0.8));
}

TEST_CASE("the rate rises to its peak, and falls to a tenth of it") {
  CHECK(cosineRate(0, 100, 10, 2) == Approx(0.2));
  CHECK(cosineRate(9, 100, 10, 2) == Approx(2));
  CHECK(cosineRate(10, 100, 10, 2) == Approx(2));
  CHECK(cosineRate(55, 100, 10, 2) == Approx(1.1));
  CHECK(cosineRate(100, 100, 10, 2) == Approx(0.2));
}

TEST_CASE("bigram: the loss of a text that alternates vanishes, that of one with even chances is log 2") {
  Text text;
  text.alphabet = 2;
  for (int i = 0; i < 4000; ++i)
    text.training.push_back(i % 2);
  CHECK(bigramLoss(text, {{{0, 1}, {1, 0}}}) < 1e-3);
  for (int i = 0; i < 4000; ++i)
    text.training[i] = i / 2 % 2;
  CHECK(bigramLoss(text, {{{0, 1, 1}, {1, 0, 1}}}) == Approx(std::log(2.0)).epsilon(1e-3));
}
