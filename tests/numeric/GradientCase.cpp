// Gradients through the public interface, and the reference over dual numbers.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/GradientCase.h"

#include "compiler/targets/reference/Derivative.h"
#include "runtime/Compiled.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>

namespace yaglom::tests {

std::vector<double> valuesOf(const Tensor &tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.size(); ++i)
    values.push_back(tensor.at(i));
  return values;
}

Tensor randomGrad(const Kernel &kernel, const Sizes &sizes, DType dtype) {
  Tensor grad(DType::f64, {sizes.batch, sizes.heads, sizes.rows, outputWidth(kernel)});
  Random random(17);
  for (int64_t i = 0; i < grad.size(); ++i)
    grad.set(i, random.normal());
  return toType(toType(grad, dtype), DType::f64);
}

Gradients backward(const Kernel &kernel, const Data &data, const Tensor &grad, int threads, int64_t interval) {
  std::vector<Tensor> inputs;
  std::vector<TensorRef> refs;
  for (const Tensor &input : data.inputs)
    inputs.push_back(toType(input, kernel.dtype()));
  for (const Tensor &input : inputs)
    refs.push_back(input.ref());
  Parameters parameters;
  for (const auto &entry : data.parameters)
    parameters.set(entry.name, toType(entry.tensor, parameterType(kernel.dtype())));
  const Tensor typed = toType(grad, kernel.dtype());
  if (!interval)
    return kernel.backward(refs, parameters, typed.ref(), {.threads = threads});
  Residual residual(interval);
  Tensor output(kernel.dtype(), grad.shape());
  kernel.forward(refs, parameters, output, {.threads = threads, .residual = &residual});
  return kernel.backward(refs, parameters, typed.ref(), {.threads = threads, .residual = &residual});
}

double halfGradientBound(const Data &data, const std::string &name, DType dtype, double changeByRounding) {
  const std::string tensor = name.substr(std::string("grad.").size());
  const bool isInput = std::count(data.names.begin(), data.names.end(), tensor) > 0;
  return std::max(halfBound(dtype, changeByRounding), isInput ? 0 : sumBound(dtype, data.sizes.rows));
}

using reference::toArray;

void checkDirections(const Spec &spec, const std::string &attention, const CompileOptions &options, const Data &data,
                     const Tensor &grad, const Gradients &found, double bound) {
  const Instance instance = runtime::bindOptions(spec, attention, options).value();
  reference::Tensors<double> tensors;
  for (std::size_t i = 0; i < data.names.size(); ++i)
    tensors[data.names[i]] = toArray(data.inputs[i]);
  for (const auto &entry : data.parameters)
    tensors[entry.name] = toArray(entry.tensor);
  for (auto &[name, array] : reference::noise(instance, data.sizes.heads, 0))
    tensors[name] = array;
  const double floor = (options.dtype == DType::f32 ? 1 : 0.01) * rms(valuesOf(found["grad.V"]));
  Random random(23);
  for (const auto &entry : found) {
    const std::vector<double> gradient = valuesOf(entry.tensor);
    reference::Array<double> direction(entry.tensor.shape());
    double dot = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i)
      dot += gradient[i] * (direction.data[i] = random.normal());
    const double expected = directionalDerivative(instance, tensors, toArray(grad), data.sizes.heads,
                                                  entry.name.substr(std::string("grad.").size()), direction);
    const double length = std::max(rms(gradient), floor) * std::sqrt(static_cast<double>(gradient.size()));
    INFO(entry.name << ": " << dot << ", by the reference " << expected);
    CHECK(std::fabs(dot - expected) <= bound * length);
  }
}

} // namespace yaglom::tests
