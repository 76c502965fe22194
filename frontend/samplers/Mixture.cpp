// mixture: a Gaussian mixture with learned weights, means and scales.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

std::string formula(const SamplerOptions &options, int64_t width) {
  return fmt::format("dim D = {}\ndim Q = {}\n", width, options.at("components")) + R"(
fn logsumexp(v) = max(v) + log(sum(exp(v - max(v))))

map sample(z: [D]) -> [D] {
  param self.alpha: [Q] = 0
  param self.mu: [Q, D] ~ gaussian
  param self.s: [Q, D] = log(exp(1) - 1)
  return component(self.mu, self.alpha) + softplus(component(self.s, self.alpha)) * z
}

map log_density(w: [D]) -> [] {
  let ones = 0 * w + 1                        # A @ ones sums each row of A
  let sigma = softplus(self.s)
  let u = (self.mu - w) / sigma
  let terms = self.alpha - (u * u / 2 + log(sigma)) @ ones
  return logsumexp(terms) - logsumexp(self.alpha) - D / 2 * log(2 * pi)
}
)";
}

} // namespace

const SamplerKind &mixtureSampler() {
  static const SamplerKind kind{
      .name = "mixture",
      .options = {{.name = "components"}},
      .hasParameters = true,
      .hasDensity = true,
      .allocated = true,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
