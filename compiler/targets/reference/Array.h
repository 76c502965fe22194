// Named arrays at the border of the reference interpreter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Arrays by their full names in the language: "Q", "favor.W", "flow.0.scale.W0", "r.noise".
template <typename T>
using Tensors = std::map<std::string, Array<T>>;

} // namespace yaglom::reference
