// yaglom bench --target cuda: times by events, and shares of what memory and tensor cores need at least.
// SPDX-License-Identifier: Apache-2.0
#include "bench/Subject.h"
#include "runtime/cuda/Stream.h"
#include "tools/Commands.h"
#include "tools/GpuPeaks.h"
#include "tools/Json.h"
#include "tools/Provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace yaglom::tools {
namespace {

/// A kernel with its tensors on the GPU.
class GpuSubject {
public:
  GpuSubject(const Kernel &kernel, const BenchOptions &options)
      : kernel(kernel), tensors(kernel.upload(withGradient(kernel, options))),
        parameters(kernel.upload(kernel.initialParameters(options.heads))),
        residual(std::max<int64_t>(options.residual, 1)), kept(options.residual ? &residual : nullptr) {
    for (const TensorInfo &info : kernel.tensors())
      if (info.role == TensorRole::Input)
        inputs.push_back(tensors[info.name]);
  }

  void forward(void *stream) { kernel.forward(inputs, parameters, tensors["O"], {.residual = kept, .stream = stream}); }
  void backward(void *stream) {
    kernel.backward(inputs, parameters, tensors["grad.O"], gradients, {.residual = kept, .stream = stream});
  }

  /// Of inputs and output, once each.
  double forwardBytes() const { return bytesOf("O", 1); }
  /// Of inputs, the output's gradient and the inputs' gradients, once each.
  double backwardBytes() const { return bytesOf("grad.O", 2); }

private:
  static Parameters withGradient(const Kernel &kernel, const BenchOptions &options) {
    Parameters all = bench::makeTensors(kernel, {options.batch, options.heads, options.length});
    all.set("grad.O", all["O"]);
    Tensor &grad = all["grad.O"];
    for (int64_t i = 0; i < grad.size(); i += 3)
      grad.set(i, 0.25);
    return all;
  }

  double bytesOf(const std::string &output, int timesInputs) const {
    const auto bytes = [](const TensorRef &ref) {
      double count = static_cast<double>(sizeOf(ref.dtype));
      for (const int64_t size : ref.shape)
        count *= static_cast<double>(size);
      return count;
    };
    double sum = bytes(tensors[output]);
    for (const TensorRef &input : inputs)
      sum += timesInputs * bytes(input);
    return sum;
  }

  const Kernel kernel;
  const DeviceParameters tensors, parameters;
  DeviceGradients gradients;
  Residual residual;
  Residual *const kept;
  std::vector<TensorRef> inputs;
};

struct Times {
  double median = 0, least = 0; ///< milliseconds
};

/// Rounds of launches between two events, for about `seconds` together.
Times measure(const cuda::Context &context, const cuda::Stream &stream, double seconds,
              const std::function<void(void *)> &launch) {
  const cuda::Event start = cuda::Event::create(context).value(), end = cuda::Event::create(context).value();
  const auto round = [&](int launches) {
    start.record(stream.handle()).value();
    for (int i = 0; i < launches; ++i)
      launch(stream.handle());
    end.record(stream.handle()).value();
    return cuda::elapsedMilliseconds(start, end).value() / launches;
  };
  round(1); // loads and allocates
  const double once = std::max(round(3), 1e-3);
  // Long enough for the clock of events, and for the GPU to reach its own.
  const int launches = static_cast<int>(std::clamp(20 / once, 1.0, 1000.0));
  std::vector<double> times;
  for (double spent = 0; times.size() < 5 || spent < seconds * 1e3; spent += times.back() * launches)
    times.push_back(round(launches));
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front()};
}

/// The least time by memory and by tensor cores, in milliseconds; NaN where the GPU's peaks are unknown.
struct Floors {
  double memory = NAN, tensor = NAN;

  Floors(const std::optional<GpuPeaks> &peaks, double bytes, double gflop) {
    if (!peaks)
      return;
    memory = bytes / (peaks->terabytes * 1e9);
    tensor = gflop / peaks->tensorTeraflops;
  }
};

JsonObject toJson(const BenchOptions &options, const Kernel &kernel, const cuda::Device &device) {
  const CompileOptions &compiled = options.compile;
  return JsonObject()
      .add("spec", options.file)
      .add("attention", options.attention)
      .add("target", compiled.target.name())
      .add("device", device.name)
      .add("dtype", toText(compiled.dtype))
      .add("batch", options.batch)
      .add("heads", options.heads)
      .add("length", options.length)
      .add("head_dim", compiled.headDim)
      .add("value_dim", compiled.valueDim ? compiled.valueDim : compiled.headDim)
      .add("chunk", compiled.schedule.chunk)
      .add("schedule", compiled.schedule.toText())
      .add("compile_ms", kernel.compileMilliseconds())
      .add("date", nowText());
}

/// One direction: a line of the table, or members of the object.
void report(const char *name, const Times &times, const Floors &floors, double gflop, bool json, JsonObject &object) {
  const std::string prefix = name == std::string("forward") ? "" : "backward_";
  object.add(prefix + "ms_median", times.median)
      .add(prefix + "ms_min", times.least)
      .add(prefix + "gflops", gflop / (times.median * 1e-3))
      .add(prefix + "memory_floor_ms", floors.memory)
      .add(prefix + "tensor_floor_ms", floors.tensor)
      .add(prefix + "share_of_memory", floors.memory / times.median)
      .add(prefix + "share_of_tensor", floors.tensor / times.median);
  if (json)
    return;
  fmt::print("{:<10} {:.3f} ms median, {:.3f} ms at best\n", name, times.median, times.least);
  if (std::isnan(floors.memory))
    return;
  fmt::print("  memory   {:.3f} ms at least: {:.1f} % of its bandwidth\n", floors.memory,
             100 * floors.memory / times.median);
  if (gflop > 0)
    fmt::print("  tensor   {:.3f} ms at least: {:.1f} % of the bf16 tensor-core peak\n", floors.tensor,
               100 * floors.tensor / times.median);
}

} // namespace

int benchGpu(const BenchOptions &options, int ordinal) {
  const Spec spec = loadSpec(options.file);
  const Kernel kernel = compile(spec, options.attention, options.compile).value();
  const cuda::Context context = cuda::Context::retain(cuda::Driver::shared().value(), ordinal).value();
  const cuda::Stream stream = cuda::Stream::create(context).value();
  const cuda::Device &device = context.device();
  const std::optional<GpuPeaks> peaks = findPeaks(device.name);
  GpuSubject subject(kernel, options);
  const double gflop =
      2e-9 * kernel.necessaryMultiplyAdds(options.batch, options.heads, options.length, options.length);
  JsonObject object = toJson(options, kernel, device);
  if (!options.json) {
    fmt::print("{} on {} ({}), B {} H {} N {}, {}\n", options.attention, device.name, device.architecture(),
               options.batch, options.heads, options.length, toText(options.compile.dtype));
    fmt::print("compile    {:.1f} ms\n", kernel.compileMilliseconds());
    if (!peaks)
      fmt::print("peaks      unknown for this GPU: tools/GpuPeaks.cpp\n");
  }
  const Times forward = measure(context, stream, options.seconds, [&](void *on) { subject.forward(on); });
  object.add("tokens_per_s", static_cast<double>(options.batch * options.length) / (forward.median * 1e-3));
  report("forward", forward, {peaks, subject.forwardBytes(), gflop}, gflop, options.json, object);
  if (options.backward) {
    const Times backward = measure(context, stream, options.seconds, [&](void *on) { subject.backward(on); });
    Floors floors(peaks, subject.backwardBytes(), 0);
    floors.tensor = NAN; // the necessary work of a gradient is not counted
    report("backward", backward, floors, 0, options.json, object);
  }
  stream.synchronize().value();
  if (options.json)
    fmt::print("{}\n", object.text());
  return kSuccess;
}

} // namespace yaglom::tools
