// The sampler `realnvp`.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

std::string formula(const SamplerOptions &, int64_t width) {
  return fmt::format("dim D = {}\nmap sample(z: [D]) -> [D] = z\n", width); // stub: the formula is written next
}

} // namespace

const SamplerKind &realNvpSampler() {
  static const SamplerKind kind{
      .name = "realnvp",
      .options = {{.name = "layers"}, {.name = "hidden"}},
      .pairs = Pairs::Allowed,
      .hasParameters = true,
      .hasDensity = true,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
