// The reference interpreter behind a Kernel: float64 inside, the kernel's type outside.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Interpret.h"

#include "compiler/targets/reference/Reference.h"
#include "runtime/Arguments.h"
#include "support/Elements.h"

#include <algorithm>
#include <utility>

namespace yaglom::runtime {
namespace {

using Array = reference::Array<double>;
using Tensors = reference::Tensors<double>;

using reference::toArray, reference::toTensor;

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
  forEachElement(
      tensor, [&](const char *address, std::size_t index) { array.data[index] = loadElement(tensor.dtype, address); });
  return array;
}

void store(const Array &array, const TensorRef &tensor) {
  forEachElement(tensor,
                 [&](char *address, std::size_t index) { storeElement(tensor.dtype, address, array.data[index]); });
}

/// Adds the sampler parameters among `parameters`, checked.
void addSamplerParameters(const Compiled &compiled, const Parameters &parameters, int64_t heads, Tensors &tensors) {
  for (const SamplerInfo &sampler : compiled.instance.samplers)
    for (const std::string &name : sampler.parameters) {
      const Tensor *tensor = parameters.find(name);
      checkHeadTensor(compiled.headTensors[compiled.headTensor(name)], tensor, heads, compiled.parameterType());
      tensors[name] = toArray(*tensor);
    }
}

} // namespace

Parameters initialParameters(const Compiled &compiled, int64_t heads, uint64_t seed) {
  const Tensors initial = reference::initialParameters(compiled.instance, heads, seed);
  Parameters parameters;
  for (const ParameterInfo &info : compiled.instance.parameters)
    parameters.set(info.name, toTensor(initial.at(info.name), compiled.parameterType()));
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

namespace {

using reference::Dual;
using Duals = reference::Tensors<Dual>;

reference::Array<Dual> lift(const Array &array) {
  reference::Array<Dual> duals(array.shape);
  for (std::size_t i = 0; i < array.data.size(); ++i)
    duals.data[i].value = array.data[i];
  return duals;
}

/// Derivatives of sum(O grad), one run for each entry of a tensor. Heads, and tensors of single items, do not meet: their
/// entries of the same place are done in one run.
class EntryDerivatives {
public:
  EntryDerivatives(const Instance &instance, Duals tensors, const Array &grad, int64_t heads)
      : instance(instance), tensors(std::move(tensors)), grad(grad), heads(heads) {}

  /// `leading`: how many axes count items: 2 of an input, 1 of a tensor of the heads, 0 of a shared one.
  Array of(const std::string &name, std::size_t leading) {
    const std::vector<int64_t> shape = tensors.at(name).shape;
    Array result(shape);
    int64_t items = 1;
    for (std::size_t axis = 0; axis < leading; ++axis)
      items *= shape[axis];
    const int64_t entries = items ? result.size() / items : 0;
    for (int64_t entry = 0; entry < entries; ++entry) {
      setTangents(name, entry, entries, 1);
      const std::vector<double> derivatives = perItem(leading);
      setTangents(name, entry, entries, 0);
      for (int64_t item = 0; item < items; ++item)
        result.data[static_cast<std::size_t>(item * entries + entry)] = derivatives[static_cast<std::size_t>(item)];
    }
    return result;
  }

private:
  void setTangents(const std::string &name, int64_t entry, int64_t stride, double tangent) {
    std::vector<Dual> &data = tensors.at(name).data;
    for (int64_t i = entry; i < static_cast<int64_t>(data.size()); i += stride)
      data[static_cast<std::size_t>(i)].tangent = tangent;
  }

  /// The sums of one run, by (batch, head), head, or all.
  std::vector<double> perItem(std::size_t leading) {
    Duals all = tensors;
    for (auto &[name, array] : reference::draws(instance, all, heads))
      all[name] = std::move(array);
    const reference::Array<Dual> output = reference::forward(instance, all);
    const int64_t batch = output.shape[0], count = output.shape[1];
    std::vector<double> sums(static_cast<std::size_t>(leading == 2 ? batch * count : leading == 1 ? count : 1));
    const int64_t each = batch * count > 0 ? output.size() / (batch * count) : 0;
    for (int64_t i = 0; i < output.size(); ++i) {
      const int64_t item = i / each;
      sums[static_cast<std::size_t>(leading == 2   ? item
                                    : leading == 1 ? item % count
                                                   : 0)] +=
          grad.data[static_cast<std::size_t>(i)] * output.data[static_cast<std::size_t>(i)].tangent;
    }
    return sums;
  }

  const Instance &instance;
  Duals tensors;
  const Array &grad;
  int64_t heads;
};

} // namespace

Parameters interpretBackward(const Compiled &compiled, std::span<const TensorRef> inputs, const Parameters &parameters,
                             const TensorRef &grad, const Parameters &noise, int64_t heads) {
  const Instance &instance = compiled.instance;
  Duals given, sampled;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    given[instance.inputs[i].name] = lift(toArray(inputs[i]));
  for (const ParameterInfo &info : instance.parameters)
    if (const Tensor *tensor = parameters.find(info.name))
      given[info.name] = lift(toArray(*tensor));
  sampled = given;
  for (const DrawInfo &draw : instance.draws) {
    for (const std::string &name : draw.names)
      given[name] = lift(toArray(parameters[name]));
    sampled[draw.noiseName()] = lift(toArray(noise[draw.noiseName()]));
  }
  // Draws are what they are; a parameter of a sampler acts through what it would draw.
  const Array weights = toArray(grad);
  EntryDerivatives direct(instance, given, weights, heads), throughDraws(instance, sampled, weights, heads);
  Parameters gradients;
  const auto set = [&](const std::string &name, const Array &values, DType dtype) {
    gradients.set("grad." + name, toTensor(values, dtype));
  };
  for (const InputInfo &input : instance.inputs)
    set(input.name, direct.of(input.name, 2), compiled.options.dtype);
  for (const ParameterInfo &info : instance.parameters) {
    bool ofSampler = false;
    for (const SamplerInfo &sampler : instance.samplers)
      ofSampler |= std::count(sampler.parameters.begin(), sampler.parameters.end(), info.name) > 0;
    if (given.contains(info.name))
      set(info.name, (ofSampler ? throughDraws : direct).of(info.name, info.shared ? 0 : 1), compiled.parameterType());
  }
  for (const DrawInfo &draw : instance.draws)
    for (const std::string &name : draw.names)
      set(name, direct.of(name, draw.shared ? 0 : 1), compiled.parameterType());
  return gradients;
}

void interpretDraws(const Compiled &compiled, Parameters &parameters, const Parameters &noise, int64_t heads) {
  Tensors tensors;
  addSamplerParameters(compiled, parameters, heads, tensors);
  for (const Parameters::Entry &entry : noise)
    tensors[entry.name] = toArray(entry.tensor);
  for (const auto &[name, array] : reference::draws(compiled.instance, tensors, heads))
    parameters.set(name, toTensor(array, compiled.parameterType()));
}

std::vector<double> interpretLoss(const Compiled &compiled, const std::string &name, const Parameters &parameters,
                                  const Tensor &noise, int64_t heads) {
  Tensors tensors;
  addSamplerParameters(compiled, parameters, heads, tensors);
  tensors[name + ".noise"] = toArray(noise);
  return reference::loss(compiled.instance, name, tensors, heads).data;
}

Parameters interpretLossGradient(const Compiled &compiled, const LossInfo &loss, const Parameters &parameters,
                                 const Tensor &noise, int64_t heads) {
  Tensors given;
  addSamplerParameters(compiled, parameters, heads, given);
  given[loss.name + ".noise"] = toArray(noise);
  Duals tensors;
  for (const auto &[name, array] : given)
    tensors[name] = lift(array);
  Parameters gradients;
  for (const SamplerInfo &sampler : compiled.instance.samplers) {
    if (sampler.name != loss.p && sampler.name != loss.q)
      continue;
    for (const std::string &name : sampler.parameters) {
      reference::Array<Dual> &array = tensors.at(name);
      // Heads do not meet: the same entry of each is done in one run.
      const std::size_t items = sampler.shared ? 1 : static_cast<std::size_t>(heads);
      const std::size_t entries = items ? array.data.size() / items : 0;
      Array gradient(array.shape);
      for (std::size_t entry = 0; entry < entries; ++entry) {
        for (std::size_t item = 0; item < items; ++item)
          array.data[item * entries + entry].tangent = 1;
        const std::vector<Dual> values = reference::loss(compiled.instance, loss.name, tensors, heads).data;
        for (std::size_t i = 0; i < values.size(); ++i)
          gradient.data[(items == 1 ? 0 : i) * entries + entry] += values[i].tangent;
        for (std::size_t item = 0; item < items; ++item)
          array.data[item * entries + entry].tangent = 0;
      }
      gradients.set("grad." + name, toTensor(gradient, compiled.parameterType()));
    }
  }
  return gradients;
}

} // namespace yaglom::runtime
