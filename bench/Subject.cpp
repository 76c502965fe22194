// Random tensors for a kernel.
// SPDX-License-Identifier: Apache-2.0
#include "bench/Subject.h"

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
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, shape.size() == 4 ? row(random) : scalar(random));
  return tensor;
}

} // namespace

Subject::Subject(Kernel subject, const Sizes &sizes)
    : kernel(std::move(subject)), sizes(sizes), parameters(kernel.initialParameters(sizes.heads)) {
  std::mt19937_64 random(1);
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input)
      tensors.push_back(makeInput(info, sizes, kernel.dtype(), random));
    else if (info.role == TensorRole::Output)
      result = Tensor(kernel.dtype(), {sizes.batch, sizes.heads, sizes.length, std::stoll(info.axes.back())});
  for (const Tensor &tensor : tensors)
    inputs.push_back(tensor.ref());
  output = result;
}

double Subject::necessaryGflop() const {
  return 2e-9 * kernel.necessaryMultiplyAdds(sizes.batch, sizes.heads, sizes.length, sizes.length);
}

} // namespace yaglom::bench
