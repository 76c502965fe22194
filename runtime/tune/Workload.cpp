// Random tensors, where the kernel finds them.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Workload.h"

#include "runtime/Compiled.h"
#include "runtime/GpuDevice.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace yaglom::runtime::tune {
namespace {

constexpr double kRowSize = 0.35, kLeastScalar = 0.5, kParameterNoise = 0.05;
/// Beyond so many entries the same ones come again.
constexpr int64_t kPeriod = int64_t{1} << 20;

Tensor makeTensor(const Shape &shape, DType dtype, std::mt19937_64 &random) {
  Tensor tensor(dtype, shape);
  std::normal_distribution<double> row(0, kRowSize);
  std::uniform_real_distribution<double> scalar(kLeastScalar, 1);
  const int64_t fresh = std::min(tensor.size(), kPeriod);
  for (int64_t i = 0; i < fresh; ++i)
    tensor.set(i, shape.size() > 3 ? row(random) : scalar(random));
  auto *data = static_cast<char *>(tensor.data());
  const auto bytes = static_cast<int64_t>(sizeOf(dtype));
  for (int64_t i = fresh, count = 0; i < tensor.size(); i += count) {
    count = std::min(fresh, tensor.size() - i);
    std::memcpy(data + i * bytes, data, static_cast<std::size_t>(count * bytes));
  }
  return tensor;
}

Shape shapeOf(const TensorInfo &info, const Sizes &sizes) {
  Shape shape{sizes.batch, sizes.heads, info.axes[2] == "M" ? sizes.keyLength : sizes.queryLength};
  if (info.axes.size() > 3)
    shape.push_back(std::stoll(info.axes[3]));
  return shape;
}

} // namespace

Workload::Workload(const Kernel &kernel, const Sizes &sizes)
    : sizes(sizes), parameters(kernel.initialParameters(sizes.heads)) {
  std::mt19937_64 random(1);
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input) {
      tensors.set(info.name, makeTensor(shapeOf(info, sizes), kernel.dtype(), random));
      inputs.push_back(info.name);
    } else if (info.role == TensorRole::Output) {
      output = shapeOf(info, sizes);
      tensors.set("grad.O", makeTensor(output, kernel.dtype(), random));
    }
  std::normal_distribution<double> noise(0, kParameterNoise);
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Parameter) {
      Tensor &tensor = parameters[info.name];
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.set(i, tensor.at(i) + noise(random));
    }
  kernel.draw(parameters, 0);
}

Subject::Subject(Kernel subject, const Workload &workload, Pass pass, int threads)
    : kernel(std::move(subject)), workload(workload), pass(pass), threads(threads) {
  Parameters all = workload.tensors;
  all.set("O", Tensor(kernel.dtype(), workload.output));
  tensors = kernel.upload(all);
  onDevice = tensors["O"].device != TensorRef::kHost;
  if (onDevice)
    parameters = kernel.upload(workload.parameters);
  for (const std::string &name : workload.inputs)
    inputs.push_back(tensors[name]);
  if (pass == Pass::BackwardFromResidual)
    kernel.forward(inputs, workload.parameters, tensors["O"], {.threads = threads, .residual = &residual});
}

void Subject::launch() {
  const Backward options{.threads = threads, .residual = pass == Pass::BackwardFromResidual ? &residual : nullptr};
  if (!onDevice) {
    if (isForward())
      kernel.forward(inputs, workload.parameters, tensors["O"], {.threads = threads});
    else
      kernel.backward(inputs, workload.parameters, tensors["grad.O"], gradients, options);
    return;
  }
  if (isForward())
    kernel.forward(inputs, parameters, tensors["O"], {.threads = threads});
  else
    kernel.backward(inputs, parameters, tensors["grad.O"], deviceGradients, options);
  wait();
}

void Subject::wait() const {
  const TensorRef last = tensors["O"];
  double element = 0;
  beginCopies(cudaDevice(last.device).value(), nullptr)
      ->download(&element, static_cast<const char *>(last.data), sizeOf(last.dtype));
}

Parameters Subject::results() const {
  if (!isForward())
    return onDevice ? deviceGradients.download() : gradients;
  Parameters output;
  output.set("O", tensors.download()["O"]);
  return output;
}

} // namespace yaglom::runtime::tune
