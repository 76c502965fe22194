// implicit: a network with one hidden layer turns noise into a row; it can be sampled, but has no density.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

int64_t noiseWidth(const SamplerOptions &options, int64_t) { return static_cast<int64_t>(options.at("noise")); }

std::string formula(const SamplerOptions &options, int64_t width) {
  return fmt::format("dim D = {}\ndim p = {}\ndim h = {}\n", width, options.at("noise"), options.at("hidden")) + R"(
map sample(z: [p]) -> [D] {
  param self.W0: [h, p] ~ gaussian(scale = p^(-1/2))
  param self.b0: [h] = 0
  param self.W1: [D, h] ~ gaussian(scale = h^(-1/2))
  param self.b1: [D] = 0
  return self.W1 @ tanh(self.W0 @ z + self.b0) + self.b1
}
)";
}

} // namespace

const SamplerKind &implicitSampler() {
  static const SamplerKind kind{
      .name = "implicit",
      .options = {{.name = "noise"}, {.name = "hidden"}},
      .hasParameters = true,
      .noiseWidth = noiseWidth,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
