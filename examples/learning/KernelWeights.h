// The learned parameters of a kernel, with the sums of their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Weight.h"

#include <yaglom/yaglom.h>

#include <string>
#include <vector>

namespace learning {

/// What a kernel learns, from the tensors that a launch takes; draws are not among it. Those tensors outlive it.
template <typename T>
class KernelWeights {
public:
  KernelWeights(const yaglom::Kernel &kernel, const yaglom::Parameters &parameters) {
    for (const yaglom::TensorInfo &tensor : kernel.tensors())
      if (tensor.role == yaglom::TensorRole::Parameter)
        sums.push_back({tensor.name, Array::Zero(parameters[tensor.name].size())});
  }

  bool empty() const { return sums.empty(); }

  /// Adds `factor` times those of `gradients` that are of these parameters.
  void add(const yaglom::Gradients &gradients, T factor = 1) {
    for (Sum &sum : sums)
      if (const yaglom::Tensor *part = gradients.find("grad." + sum.name))
        sum.gradient += factor * Eigen::Map<const Array>(static_cast<const T *>(part->data()), part->size());
  }

  /// Names get `prefix` in front.
  void collect(const std::string &prefix, yaglom::Parameters &parameters, std::vector<Learned<T>> &all) {
    for (Sum &sum : sums) {
      yaglom::Tensor &parameter = parameters[sum.name];
      all.push_back({prefix + sum.name, static_cast<T *>(parameter.data()), sum.gradient.data(), parameter.shape()});
    }
  }

private:
  using Array = Eigen::Array<T, Eigen::Dynamic, 1>;

  /// The sum of the gradients of one parameter.
  struct Sum {
    std::string name;
    Array gradient;
  };

  std::vector<Sum> sums;
};

} // namespace learning
