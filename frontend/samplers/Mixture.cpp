// The sampler `mixture`.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

std::string formula(const SamplerOptions &, int64_t width) {
  return fmt::format("dim D = {}\nmap sample(z: [D]) -> [D] = z\n", width); // stub: the formula is written next
}

} // namespace

const SamplerKind &mixtureSampler() {
  static const SamplerKind kind{
      .name = "mixture",
      .options = {{.name = "components"}},
      .pairs = Pairs::Allowed,
      .hasParameters = true,
      .hasDensity = true,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
