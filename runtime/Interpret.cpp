// The reference interpreter behind a Kernel: float64 inside, the kernel's type outside.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Interpret.h"

#include "compiler/targets/reference/Reference.h"
#include "runtime/Arguments.h"

namespace yaglom::runtime {
namespace {

using Array = reference::Array<double>;
using Tensors = reference::Tensors<double>;

Array toArray(const Tensor &tensor) {
  Array array(tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i)
    array.data[static_cast<std::size_t>(i)] = tensor.at(i);
  return array;
}

Tensor toTensor(const Array &array, DType dtype) {
  Tensor tensor(dtype, array.shape);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, array.data[static_cast<std::size_t>(i)]);
  return tensor;
}

/// Calls `visit(address, index)` for each element of a strided tensor [B, H, N] or [B, H, N, width], in row-major order.
template <typename F>
void forEachElement(const TensorRef &tensor, F visit) {
  const Operand operand = bindTensor(tensor, false);
  int64_t index = 0;
  for (int64_t b = 0; b < tensor.shape[0]; ++b)
    for (int64_t h = 0; h < tensor.shape[1]; ++h)
      for (int64_t row = 0; row < operand.rows; ++row)
        for (int64_t column = 0; column < operand.width; ++column) {
          const int64_t offset = b * operand.batchStride + h * operand.headStride + row * operand.rowStride +
                                 column * operand.columnStride;
          visit(operand.data + offset * static_cast<int64_t>(sizeOf(tensor.dtype)), static_cast<std::size_t>(index++));
        }
}

Array toArray(const TensorRef &tensor) {
  Array array(tensor.shape);
  forEachElement(tensor, [&](const char *address, std::size_t index) {
    array.data[index] = tensor.dtype == DType::f32 ? *reinterpret_cast<const float *>(address)
                                                   : *reinterpret_cast<const double *>(address);
  });
  return array;
}

void store(const Array &array, const TensorRef &tensor) {
  forEachElement(tensor, [&](char *address, std::size_t index) {
    if (tensor.dtype == DType::f32)
      *reinterpret_cast<float *>(address) = static_cast<float>(array.data[index]);
    else
      *reinterpret_cast<double *>(address) = array.data[index];
  });
}

/// Adds the sampler parameters among `parameters`, checked.
void addSamplerParameters(const Compiled &compiled, const Parameters &parameters, int64_t heads, Tensors &tensors) {
  for (const SamplerInfo &sampler : compiled.instance.samplers)
    for (const std::string &name : sampler.parameters) {
      const Tensor *tensor = parameters.find(name);
      checkHeadTensor(compiled.headTensors[compiled.headTensor(name)], tensor, heads, compiled.options.dtype);
      tensors[name] = toArray(*tensor);
    }
}

} // namespace

Parameters initialParameters(const Compiled &compiled, int64_t heads, uint64_t seed) {
  const Tensors initial = reference::initialParameters(compiled.instance, heads, seed);
  Parameters parameters;
  for (const ParameterInfo &info : compiled.instance.parameters)
    parameters.set(info.name, toTensor(initial.at(info.name), compiled.options.dtype));
  return parameters;
}

void interpretForward(const Compiled &compiled, std::span<const TensorRef> inputs, const Parameters &parameters,
                      const TensorRef &output) {
  Tensors tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tensors[compiled.instance.inputs[i].name] = toArray(inputs[i]);
  for (std::size_t index : compiled.forwardTensors) {
    const std::string &name = compiled.headTensors[index].name;
    tensors[name] = toArray(parameters[name]);
  }
  store(reference::forward(compiled.instance, tensors), output);
}

void interpretDraws(const Compiled &compiled, Parameters &parameters, const Parameters &noise, int64_t heads) {
  Tensors tensors;
  addSamplerParameters(compiled, parameters, heads, tensors);
  for (const Parameters::Entry &entry : noise)
    tensors[entry.name] = toArray(entry.tensor);
  for (const auto &[name, array] : reference::draws(compiled.instance, tensors, heads))
    parameters.set(name, toTensor(array, compiled.options.dtype));
}

std::vector<double> interpretLoss(const Compiled &compiled, const std::string &name, const Parameters &parameters,
                                  const Tensor &noise, int64_t heads) {
  Tensors tensors;
  addSamplerParameters(compiled, parameters, heads, tensors);
  tensors[name + ".noise"] = toArray(noise);
  return reference::loss(compiled.instance, name, tensors, heads).data;
}

} // namespace yaglom::runtime
