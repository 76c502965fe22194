// The sampler `orthogonal`.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

std::string formula(const SamplerOptions &, int64_t width) {
  return fmt::format("dim D = {}\nmap sample(z: [D]) -> [D] = z\n", width); // stub: the formula is written next
}

} // namespace

const SamplerKind &orthogonalSampler() {
  static const SamplerKind kind{
      .name = "orthogonal",
      .options = {{.name = "scale", .integer = false, .fallback = 1}},
      .pairs = Pairs::Never,
      .hasParameters = false,
      .hasDensity = false,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
