// Parameters, gradients and inputs in files that PyTorch, JAX and others read: safetensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

#include <map>
#include <string>

namespace yaglom {

/// The tensors of a file in their order, and the strings of its metadata.
struct SafetensorsContent {
  Parameters tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads a file; values of type F64, F32, F16 and BF16 become `dtype`. The Error names the path, and the tensor if one is at
/// fault; a file that is damaged or hostile is an Error too.
///
///     Parameters parameters = loadSafetensors("model.safetensors").value().tensors;
YAGLOM_API Result<SafetensorsContent> loadSafetensors(const std::string &path, DType dtype = DType::f32);

/// Writes `tensors` in their order and type. Names and metadata must be UTF-8. The Error names the path.
YAGLOM_API Result<void> saveSafetensors(const std::string &path, const Parameters &tensors,
                                        const std::map<std::string, std::string> &metadata = {});

} // namespace yaglom
