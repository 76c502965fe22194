// The sampler `implicit`.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

std::string formula(const SamplerOptions &, int64_t width) {
  return fmt::format("dim D = {}\nmap sample(z: [D]) -> [D] = z\n", width); // stub: the formula is written next
}

int64_t noiseWidth(const SamplerOptions &options, int64_t) { return static_cast<int64_t>(options.at("noise")); }

} // namespace

const SamplerKind &implicitSampler() {
  static const SamplerKind kind{
      .name = "implicit",
      .options = {{.name = "noise"}, {.name = "hidden"}},
      .pairs = Pairs::Allowed,
      .hasParameters = true,
      .hasDensity = false,
      .noiseWidth = noiseWidth,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
