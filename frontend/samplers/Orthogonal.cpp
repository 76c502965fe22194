// orthogonal: blocks of mutually orthogonal rows, each as long as a Gaussian row would be.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

std::string formula(const SamplerOptions &options, int64_t width) {
  // orthogonalize(z) has norm 1; |z| is the norm of the row's own noise.
  return fmt::format("dim D = {}\nmap sample(z: [D]) -> [D] = {} * |z| * orthogonalize(z)\n", width,
                     options.at("scale"));
}

} // namespace

const SamplerKind &orthogonalSampler() {
  static const SamplerKind kind{
      .name = "orthogonal",
      .options = {{.name = "scale", .integer = false, .fallback = 1}},
      .pairs = Pairs::Never,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
