// Slices of named tensors that belong to one head, checked against the shapes that an attention declares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Array.h"
#include "compiler/targets/reference/Value.h"
#include "frontend/Instance.h"

#include <set>
#include <string>

namespace yaglom::reference {

/// "[2, 3, 4]".
std::string toText(const std::vector<int64_t> &shape);

/// The tensor of that name; throws an Error when it is missing or has another shape.
template <typename T>
const Array<T> &require(const Tensors<T> &tensors, const std::string &name, const std::vector<int64_t> &shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw Error("tensor '" + name + "' is missing");
  if (found->second.shape != shape)
    throw Error("tensor '" + name + "': expected shape " + toText(shape) + ", found " + toText(found->second.shape));
  return found->second;
}

/// `shape` behind a head axis, unless shared.
std::vector<int64_t> perHead(bool shared, int64_t heads, std::vector<int64_t> shape);

/// `count` rows of `shape` from `offset`, in the interpreter's scalar.
template <typename T>
auto widen(const Array<T> &array, int64_t offset, std::vector<int64_t> shape, int64_t rows) {
  Value<typename ScalarOf<T>::Type> value(std::move(shape), rows);
  for (std::size_t i = 0; i < value.data.size(); ++i)
    value.data[i] = ScalarOf<T>::widen(array.data[static_cast<std::size_t>(offset) + i]);
  return value;
}

/// The part of `array` that head `head` owns, as a constant; the whole when shared.
template <typename T>
auto headPart(const Array<T> &array, bool shared, int64_t head) {
  std::vector<int64_t> shape(array.shape.begin() + (shared ? 0 : 1), array.shape.end());
  int64_t size = 1;
  for (int64_t axis : shape)
    size *= axis;
  return widen(array, shared ? 0 : head * size, std::move(shape), Value<typename ScalarOf<T>::Type>::kConstant);
}

/// Writes `value` to the part of `array` that starts at `offset`.
template <typename T>
void narrow(const Value<typename ScalarOf<T>::Type> &value, Array<T> &array, int64_t offset) {
  for (std::size_t i = 0; i < value.data.size(); ++i)
    array.data[static_cast<std::size_t>(offset) + i] = ScalarOf<T>::narrow(value.data[i]);
}

/// Parameters and draws of one head by name.
template <typename T>
class HeadTensors {
public:
  HeadTensors(const Instance &instance, const Tensors<T> &tensors, int64_t heads, int64_t head)
      : tensors(tensors), heads(heads), head(head) {
    for (const ParameterInfo &parameter : instance.parameters)
      known[parameter.name] = {parameter.shared, parameter.shape};
    for (const DrawInfo &draw : instance.draws)
      for (const std::string &name : draw.names)
        known[name] = {draw.shared, {draw.rows, draw.width / static_cast<int64_t>(draw.names.size())}};
  }

  auto operator()(const std::string &name) const {
    const auto found = known.find(name);
    if (found == known.end())
      throw Error("internal error: the attention has no tensor '" + name + "'");
    const Declared &declared = found->second;
    return headPart(require(tensors, name, perHead(declared.shared, heads, declared.shape)), declared.shared, head);
  }

private:
  struct Declared {
    bool shared;
    std::vector<int64_t> shape;
  };
  const Tensors<T> &tensors;
  int64_t heads, head;
  std::map<std::string, Declared> known;
};

} // namespace yaglom::reference
