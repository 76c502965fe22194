// A training run in one safetensors file: weights, Adam's moments, and strings such as the step and the generator's state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Adam.h"

#include <yaglom/yaglom.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

namespace learning {

/// Strings of a checkpoint by name.
using Metadata = std::map<std::string, std::string>;

/// The string of that name. Throws yaglom::Error when there is none.
inline const std::string &entry(const Metadata &strings, const std::string &name) {
  const auto found = strings.find(name);
  if (found == strings.end())
    throw yaglom::Error("the checkpoint has no entry '" + name + "'");
  return found->second;
}

namespace detail {

template <typename T>
yaglom::Tensor tensorOf(const T *data, const yaglom::Shape &shape) {
  yaglom::Tensor tensor(kType<T>, shape);
  std::copy_n(data, tensor.size(), static_cast<T *>(tensor.data()));
  return tensor;
}

template <typename T>
void restore(const yaglom::Parameters &tensors, const std::string &name, const yaglom::Shape &shape, T *data) {
  const yaglom::Tensor *tensor = tensors.find(name);
  if (!tensor || tensor->shape() != shape)
    throw yaglom::Error("the checkpoint is of another model: its '" + name + "' is missing or has another shape");
  std::copy_n(static_cast<const T *>(tensor->data()), tensor->size(), data);
}

} // namespace detail

/// Replaces the file `path` at once: a run that is killed leaves the one before. Throws yaglom::Error.
template <typename T>
void saveCheckpoint(const std::string &path, const Adam<T> &adam, Metadata metadata) {
  yaglom::Parameters tensors;
  for (size_t i = 0; i < adam.learned().size(); ++i) {
    const Learned<T> &weight = adam.learned()[i];
    tensors.set(weight.name, detail::tensorOf(weight.data, weight.shape));
    tensors.set("adam.first." + weight.name, detail::tensorOf(adam.first[i].data(), weight.shape));
    tensors.set("adam.second." + weight.name, detail::tensorOf(adam.second[i].data(), weight.shape));
  }
  metadata["adam.taken"] = std::to_string(adam.taken);
  const std::string fresh = path + ".new";
  yaglom::saveSafetensors(fresh, tensors, metadata).value();
  std::error_code code;
  std::filesystem::rename(fresh, path, code);
  if (code)
    throw yaglom::Error(path + ": " + code.message());
}

/// Puts the weights and moments of the file where `adam` has them, and returns the strings. Throws yaglom::Error when the
/// file cannot be read or belongs to another model.
template <typename T>
Metadata loadCheckpoint(const std::string &path, Adam<T> &adam) {
  const yaglom::SafetensorsContent file = yaglom::loadSafetensors(path, kType<T>).value();
  for (size_t i = 0; i < adam.learned().size(); ++i) {
    const Learned<T> &weight = adam.learned()[i];
    detail::restore(file.tensors, weight.name, weight.shape, weight.data);
    detail::restore(file.tensors, "adam.first." + weight.name, weight.shape, adam.first[i].data());
    detail::restore(file.tensors, "adam.second." + weight.name, weight.shape, adam.second[i].data());
  }
  adam.taken = std::stoll(entry(file.metadata, "adam.taken"));
  return file.metadata;
}

} // namespace learning
