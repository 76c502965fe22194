// spectral_mixture: the non-stationary Gaussian spectral mixture, correlated pairs of frequencies.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

// The correlation is tanh(rho); root(rho) = sqrt(1 - tanh(rho)^2) and its logarithm are written without the cancellation.
// The quadratic form of a correlated pair is (x^2 - 2 tanh(rho) x y + y^2) / root(rho)^2, summed over the frequency's axes.
constexpr std::string_view kFormula = R"(
fn logsumexp(v) = max(v) + log(sum(exp(v - max(v))))
fn root(rho) = 2 * sqrt(sigmoid(2 * rho) * sigmoid(-2 * rho))
fn logroot(rho) = log(2) - (softplus(2 * rho) + softplus(-2 * rho)) / 2
fn form(x, y, rho, ones) = ((x * x + y * y) @ ones - 2 * tanh(rho) * ((x * y) @ ones)) / square(root(rho))

map sample(z: [2*w]) -> [2*w] {
  param self.alpha: [Q] = 0
  param self.mu1: [Q, w] ~ gaussian
  param self.mu2: [Q, w] ~ gaussian
  param self.sigma1: [Q, w] = log(exp(1) - 1)
  param self.sigma2: [Q, w] = log(exp(1) - 1)
  param self.rho: [Q] = 0
  let (z1, z2) = split(z)
  let s1 = softplus(component(self.sigma1, self.alpha))
  let s2 = softplus(component(self.sigma2, self.alpha))
  let r = component(self.rho, self.alpha)
  return [component(self.mu1, self.alpha) + s1 * z1;
          component(self.mu2, self.alpha) + s2 * (tanh(r) * z1 + root(r) * z2)]
}

map log_density(x: [2*w]) -> [] {
  let (w1, w2) = split(x)
  let ones = 0 * w1 + 1                       # A @ ones sums each row of A
  let s1 = softplus(self.sigma1)
  let s2 = softplus(self.sigma2)
  let weight = self.alpha - (log(s1) + log(s2)) @ ones - w * logroot(self.rho)
  let plus = weight - form((self.mu1 - w1) / s1, (self.mu2 - w2) / s2, self.rho, ones) / 2
  let minus = weight - form((self.mu1 + w1) / s1, (self.mu2 + w2) / s2, self.rho, ones) / 2
  return logsumexp([plus; minus]) - logsumexp(self.alpha) - log(2) - w * log(2 * pi)
}
)";

std::string formula(const SamplerOptions &options, int64_t width) {
  return fmt::format("dim w = {}\ndim Q = {}\n{}", width / 2, options.at("components"), kFormula);
}

} // namespace

const SamplerKind &spectralMixtureSampler() {
  static const SamplerKind kind{
      .name = "spectral_mixture",
      .options = {{.name = "components"}},
      .pairs = Pairs::Only,
      .hasParameters = true,
      .hasDensity = true,
      .allocated = true,
      .symmetric = true,
      .formula = formula,
  };
  return kind;
}

} // namespace yaglom
