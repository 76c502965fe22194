// Random tensors for a kernel.
// SPDX-License-Identifier: Apache-2.0
#include "bench/Subject.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace yaglom::bench {
namespace {

Tensor makeInput(const TensorInfo &info, const Sizes &sizes, DType dtype, std::mt19937_64 &random) {
  Shape shape{sizes.batch, sizes.heads, sizes.length};
  if (info.axes.size() == 4)
    shape.push_back(std::stoll(info.axes[3]));
  Tensor tensor(dtype, shape);
  std::normal_distribution<double> row(0, 0.35);
  std::uniform_real_distribution<double> scalar(0.5, 1);
  constexpr int64_t kPeriod = int64_t{1} << 20;
  const int64_t fresh = std::min(tensor.size(), kPeriod);
  for (int64_t i = 0; i < fresh; ++i)
    tensor.set(i, shape.size() == 4 ? row(random) : scalar(random));
  auto *data = static_cast<char *>(tensor.data());
  for (int64_t i = fresh, count = 0; i < tensor.size(); i += count) {
    count = std::min(fresh, tensor.size() - i);
    const auto bytes = static_cast<int64_t>(sizeOf(dtype));
    std::memcpy(data + i * bytes, data, static_cast<std::size_t>(count * bytes));
  }
  return tensor;
}

} // namespace

Parameters makeTensors(const Kernel &kernel, const Sizes &sizes) {
  std::mt19937_64 random(1);
  Parameters tensors;
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input)
      tensors.set(info.name, makeInput(info, sizes, kernel.dtype(), random));
    else if (info.role == TensorRole::Output)
      tensors.set(info.name,
                  Tensor(kernel.dtype(), {sizes.batch, sizes.heads, sizes.length, std::stoll(info.axes.back())}));
  return tensors;
}

Subject::Subject(Kernel subject, const Sizes &sizes)
    : kernel(std::move(subject)), sizes(sizes), parameters(kernel.initialParameters(sizes.heads)),
      tensors(makeTensors(kernel, sizes)) {
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input)
      inputs.push_back(tensors[info.name].ref());
  output = tensors["O"];
}

double Subject::necessaryGflop() const {
  return 2e-9 * kernel.necessaryMultiplyAdds(sizes.batch, sizes.heads, sizes.length, sizes.length);
}

} // namespace yaglom::bench
