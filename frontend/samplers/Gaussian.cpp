// The sampler `gaussian(scale = 1)`: rows scale * z with independent standard normal z.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

/// log N(w; 0, scale^2 I) = -|w / scale|^2 / 2 - D log(scale) - D/2 log(2 pi)
std::string formula(const SamplerOptions &options, int64_t width) {
  return fmt::format(R"(
dim D = {0}
map sample(z: [D]) -> [D] = {1} * z
map log_density(w: [D]) -> [] =
  -|w / {1}|^2 / 2 - D * log({1}) - D / 2 * log(2 * pi)
)",
                     width, options.at("scale"));
}

} // namespace

const SamplerKind &gaussianSampler() {
  static const SamplerKind kind{
      .name = "gaussian",
      .options = {{.name = "scale", .integer = false, .fallback = 1}},
      .pairs = Pairs::Allowed,
      .hasParameters = false,
      .hasDensity = true,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
