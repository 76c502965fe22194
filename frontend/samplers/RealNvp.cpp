// realnvp: an invertible flow of affine couplings (Dinh, Sohl-Dickstein and Bengio 2017), so rows have a density.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

/// Writes the formula layer by layer. In layer l the row is [a_l; b_l]; a_l steers the change of b_l, then they swap:
/// a_(l+1) = b_l * exp(s_l) + shift(a_l), b_(l+1) = a_l. An empty part (rows of one entry) is left out of the text,
/// and so is a tensor without entries.
class FlowText {
public:
  FlowText(const SamplerOptions &options, int64_t width)
      : width(width), layers(static_cast<int64_t>(options.at("layers"))),
        hidden(static_cast<int64_t>(options.at("hidden"))) {}

  std::string write() const {
    std::string text = fmt::format("dim D = {}\ndim h = {}\n", width, hidden);
    text += "fn net(W0, b0, W1, b1, a) = W1 @ tanh(W0 @ a + b0) + b1\n";
    text += "map sample(z: [D]) -> [D] {\n" + parameters() + split("z", 0) + forward(true);
    text += "  return " + row(layers) + "\n}\n";
    text += "map sample_log_density(z: [D]) -> [] {\n" + split("z", 0) + forward(false);
    text += "  return " + logDensity("z") + "\n}\n";
    text += "map log_density(w: [D]) -> [] {\n" + split("w", layers) + backward();
    text += "  let z = " + row(0) + "\n  return " + logDensity("z") + "\n}\n";
    return text;
  }

private:
  /// Entries of a_l and of b_l.
  int64_t steering(int64_t layer) const { return layer % 2 ? width - width / 2 : width / 2; }
  int64_t changed(int64_t layer) const { return width - steering(layer); }

  std::string row(int64_t layer) const {
    if (!steering(layer) || !changed(layer))
      return fmt::format("{}{}", steering(layer) ? "a" : "b", layer);
    return fmt::format("[a{0}; b{0}]", layer);
  }

  /// Names the two parts of the row `whole` that stands before `layer`.
  std::string split(const std::string &whole, int64_t layer) const {
    std::string text;
    if (steering(layer))
      text += fmt::format("  let a{} = slice({}, 0, {})\n", layer, whole, steering(layer));
    if (changed(layer))
      text += fmt::format("  let b{} = slice({}, {}, {})\n", layer, whole, steering(layer), changed(layer));
    return text;
  }

  std::string parameters() const {
    std::string text;
    for (int64_t layer = 0; layer < layers; ++layer)
      for (const char *net : {"scale", "shift"}) {
        const std::string param = fmt::format("  param self.{}.{}.", layer, net);
        if (steering(layer))
          text += fmt::format("{0}W0: [h, {1}] ~ gaussian(scale = {1}^(-1/2))\n", param, steering(layer));
        text += param + "b0: [h] = 0\n";
        if (changed(layer))
          text += fmt::format("{0}W1: [{1}, h] = 0\n{0}b1: [{1}] = 0\n", param, changed(layer));
      }
    return text;
  }

  /// The value of one of the two nets of a layer at a_l.
  std::string net(const char *which, int64_t layer) const {
    const std::string self = fmt::format("self.{}.{}.", layer, which);
    if (!steering(layer))
      return fmt::format("({0}W1 @ tanh({0}b0) + {0}b1)", self);
    return fmt::format("net({0}W0, {0}b0, {0}W1, {0}b1, a{1})", self, layer);
  }

  std::string scale(int64_t layer) const { return fmt::format("  let s{} = tanh({})\n", layer, net("scale", layer)); }

  /// From a_0 and b_0 to a_l and b_l of every layer; the last row only when it is `wanted`.
  std::string forward(bool wanted) const {
    std::string text;
    for (int64_t layer = 0; layer < layers; ++layer) {
      const bool used = wanted || layer + 1 < layers;
      if (changed(layer))
        text += scale(layer);
      if (changed(layer) && used)
        text += fmt::format("  let a{} = b{} * exp(s{}) + {}\n", layer + 1, layer, layer, net("shift", layer));
      if (steering(layer) && used)
        text += fmt::format("  let b{} = a{}\n", layer + 1, layer);
    }
    return text;
  }

  /// From the last layer's row to a_0 and b_0.
  std::string backward() const {
    std::string text;
    for (int64_t layer = layers; layer-- > 0;) {
      if (steering(layer))
        text += fmt::format("  let a{} = b{}\n", layer, layer + 1);
      if (changed(layer))
        text += scale(layer) +
                fmt::format("  let b{} = (a{} - {}) * exp(-s{})\n", layer, layer + 1, net("shift", layer), layer);
    }
    return text;
  }

  /// The Gaussian density of the noise, less the logarithm of how much the layers stretch.
  std::string logDensity(const std::string &noise) const {
    std::string text = fmt::format("-sum({0} * {0}) / 2 - D / 2 * log(2 * pi)", noise);
    for (int64_t layer = 0; layer < layers; ++layer)
      if (changed(layer))
        text += fmt::format(" - sum(s{})", layer);
    return text;
  }

  int64_t width;
  int64_t layers;
  int64_t hidden;
};

std::string formula(const SamplerOptions &options, int64_t width) { return FlowText(options, width).write(); }

} // namespace

const SamplerKind &realNvpSampler() {
  static const SamplerKind kind{
      .name = "realnvp",
      .options = {{.name = "layers", .most = 512}, {.name = "hidden"}},
      .hasParameters = true,
      .hasDensity = true,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
