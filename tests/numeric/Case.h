// Small attentions written in a test, with tensors to run them on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Reference.h"
#include "support/Random.h"
#include "yaglom/spec.h"

#include <initializer_list>
#include <memory>
#include <string>

namespace yaglom::tests {

/// A spec in a test, one attention of it bound, and its tensors. The attention's name is "a".
struct Case {
  std::shared_ptr<Spec> spec;
  Instance instance;
  reference::Tensors<double> tensors;

  explicit Case(const std::string &text, const DimValues &dims = {{"d", 3}, {"e", 2}})
      : spec(std::make_shared<Spec>(Spec::parse(text, "case.phi").value())),
        instance(instantiate(spec->file(), "a", dims).value()) {}

  /// Random inputs, initial parameters, and noise.
  Case &fill(int64_t batch, int64_t heads, int64_t rows, int64_t keyRows = -1, int64_t keyHeads = -1) {
    keyHeads = keyHeads < 0 ? heads : keyHeads;
    tensors = reference::initialParameters(instance, keyHeads, 5);
    tensors.merge(reference::noise(instance, keyHeads, 5));
    for (const InputInfo &input : instance.inputs) {
      const bool key = input.side == Side::Key;
      std::vector<int64_t> shape{batch, key ? keyHeads : heads, key && keyRows >= 0 ? keyRows : rows};
      shape.insert(shape.end(), input.shape.begin(), input.shape.end());
      reference::Array<double> array(shape);
      const NormalStream stream(9, input.name, 0);
      for (std::size_t i = 0; i < array.data.size(); ++i)
        array.data[i] = stream(i);
      tensors[input.name] = array;
    }
    return *this;
  }

  Case &set(const std::string &name, std::vector<int64_t> shape, std::vector<double> data) {
    reference::Array<double> array(std::move(shape));
    array.data = std::move(data);
    tensors[name] = std::move(array);
    return *this;
  }

  double &at(const std::string &name, std::size_t index) { return tensors.at(name).data.at(index); }
  std::vector<double> output() const { return reference::forward(instance, tensors).data; }

  /// Derivative of every output along entry `index` of a tensor.
  std::vector<double> derivative(const std::string &name, std::size_t index) const {
    reference::Tensors<reference::Dual> duals;
    for (const auto &[key, array] : tensors) {
      duals[key] = reference::Array<reference::Dual>(array.shape);
      for (std::size_t i = 0; i < array.data.size(); ++i)
        duals[key].data[i].value = array.data[i];
    }
    duals.at(name).data.at(index).tangent = 1;
    std::vector<double> tangents;
    for (const reference::Dual &x : reference::forward(instance, duals).data)
      tangents.push_back(x.tangent);
    return tangents;
  }
};

} // namespace yaglom::tests
