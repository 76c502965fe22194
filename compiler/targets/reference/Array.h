// Named arrays at the border of the reference interpreter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace yaglom::reference {

/// A dense row-major array.
template <typename T>
struct Array {
  std::vector<int64_t> shape;
  std::vector<T> data;

  Array() = default;
  explicit Array(std::vector<int64_t> sizes) : shape(std::move(sizes)), data(static_cast<std::size_t>(size())) {}

  /// Number of elements that the shape holds.
  int64_t size() const {
    int64_t count = 1;
    for (int64_t axis : shape)
      count *= axis;
    return count;
  }
};

inline Array<double> toArray(const Tensor &tensor) {
  Array<double> array(tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i)
    array.data[static_cast<std::size_t>(i)] = tensor.at(i);
  return array;
}

inline Tensor toTensor(const Array<double> &array, DType dtype) {
  Tensor tensor(dtype, array.shape);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, array.data[static_cast<std::size_t>(i)]);
  return tensor;
}

/// Arrays by their full names in the language: "Q", "favor.W", "flow.0.scale.W0", "r.noise".
template <typename T>
using Tensors = std::map<std::string, Array<T>>;

} // namespace yaglom::reference
