// Directional derivatives by dual numbers.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Derivative.h"

#include <algorithm>
#include <utility>

namespace yaglom::reference {

static bool isOfSampler(const Instance &instance, const std::string &name) {
  return std::any_of(instance.samplers.begin(), instance.samplers.end(), [&](const SamplerInfo &sampler) {
    return std::count(sampler.parameters.begin(), sampler.parameters.end(), name) > 0;
  });
}

/// All tensors, with `direction` as the tangents of one of them.
static Tensors<Dual> lift(const Tensors<double> &tensors, const std::string &name, const Array<double> &direction) {
  Tensors<Dual> duals;
  for (const auto &[key, array] : tensors) {
    Array<Dual> dual(array.shape);
    for (std::size_t i = 0; i < array.data.size(); ++i)
      dual.data[i] = {array.data[i], key == name ? direction.data[i] : 0};
    duals.emplace(key, std::move(dual));
  }
  return duals;
}

double directionalDerivative(const Instance &instance, const Tensors<double> &tensors, const Array<double> &grad,
                             int64_t heads, const std::string &name, const Array<double> &direction) {
  Tensors<Dual> duals = lift(tensors, name, direction);
  if (isOfSampler(instance, name))
    for (const DrawInfo &draw : instance.draws)
      for (const std::string &drawn : draw.names)
        duals.erase(drawn);
  for (auto &[key, array] : draws(instance, duals, heads))
    duals[key] = std::move(array);
  const Array<Dual> output = forward(instance, duals);
  double sum = 0;
  for (std::size_t i = 0; i < output.data.size(); ++i)
    sum += grad.data[i] * output.data[i].tangent;
  return sum;
}

double directionalLossDerivative(const Instance &instance, const Tensors<double> &tensors, int64_t heads,
                                 const std::string &name, const std::string &parameter,
                                 const Array<double> &direction) {
  double sum = 0;
  for (const Dual &value : loss(instance, name, lift(tensors, parameter, direction), heads).data)
    sum += value.tangent;
  return sum;
}

} // namespace yaglom::reference
