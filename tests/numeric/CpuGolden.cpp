// Binds golden cases to the public interface.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuGolden.h"

namespace yaglom::tests {

Kernel kernelOf(const Golden &golden, DType dtype, const Target &target) {
  CompileOptions settings = options(dtype, golden.given.at("K").shape.at(3), golden.given.at("V").shape.at(3), target);
  for (const auto &[name, value] : golden.instance.dims)
    if (name != "d" && name != "e")
      settings.dims[name] = value;
  return compiled(*golden.spec, golden.instance.attention->id.name, settings);
}

Data dataOf(const Golden &golden, const Kernel &kernel, Parameters &drawn) {
  Data data;
  const std::vector<int64_t> &shape = golden.given.at("Q").shape;
  data.sizes = {shape[0], golden.heads, shape[2], golden.given.at("K").shape[2]};
  for (const TensorInfo &info : kernel.tensors()) {
    const auto it = golden.given.find(info.name);
    if (it == golden.given.end())
      continue;
    if (info.role == TensorRole::Input) {
      data.names.push_back(info.name);
      data.inputs.push_back(toTensor(it->second, DType::f64));
    } else {
      data.parameters.set(info.name, toTensor(it->second, DType::f64));
    }
  }
  bool noisy = false;
  for (const Parameters::Entry &entry : data.parameters) {
    drawn.set(entry.name, toType(entry.tensor, parameterType(kernel.dtype())));
    noisy |= entry.name.ends_with(".noise");
  }
  if (noisy)
    kernel.draw(drawn, 0);
  for (const Parameters::Entry &entry : drawn)
    if (!data.parameters.find(entry.name))
      data.parameters.set(entry.name, entry.tensor);
  return data;
}

} // namespace yaglom::tests
