// yaglom bench: the speed of an attention, as a share of what the machine can do at the same moment.
// SPDX-License-Identifier: Apache-2.0
#include "bench/Peak.h"
#include "bench/Subject.h"
#include "runtime/GpuDevice.h"
#include "runtime/Pool.h"
#include "support/Memory.h"
#include "tools/Commands.h"
#include "tools/Json.h"
#include "tools/Provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace yaglom::tools {
namespace {

struct Measurement {
  double medianMs = 0;
  double leastMs = 0;
  double peakGflops = 0;
  double shareOfPeak = 0;
  double gflop = 0; ///< necessary work of a launch
  int64_t extraBytes = 0;
  double backwardMs = 0; ///< median, when asked for
  double bothMs = 0;     ///< forward, which fills the residual if there is one, and backward
  double toForward = 0;  ///< the same in forward passes that keep nothing
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Milliseconds of one launch, the mean of `repeats`.
double time(const bench::Subject &subject, int threads, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i)
    subject.forward(threads);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / repeats;
}

/// What the first launch adds to the resident memory: scratch of all threads, and whatever else it touches. Scratch may
/// also come from memory that compiling has given back, which the system still counts, so it is the least answer.
int64_t measureExtraBytes(const bench::Subject &subject, int threads) {
  resetPeak();
  const int64_t before = residentBytes();
  subject.forward(threads);
  return std::max(peakBytes() - before, subject.kernel.scratchBytes() * threads);
}

/// Milliseconds of a backward launch. With a residual a forward launch fills it before, and `forward` becomes its time.
double trainingStep(const bench::Subject &subject, const BenchOptions &options, int threads, double &forward,
                    Residual &residual) {
  const auto since = [](std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  auto start = std::chrono::steady_clock::now();
  if (options.residual) {
    subject.forwardKeeping(threads, residual);
    forward = since(start);
    start = std::chrono::steady_clock::now();
  }
  subject.backward(threads, options.residual ? &residual : nullptr);
  return since(start);
}

Measurement measure(const Kernel &kernel, const BenchOptions &options, int threads) {
  const bench::Subject subject(kernel, {options.batch, options.heads, options.length});
  Measurement result;
  result.gflop = subject.necessaryGflop();
  bench::measurePeakGflops(threads, options.compile.dtype); // starts its threads once before memory is measured
  result.extraBytes = measureExtraBytes(subject, threads);
  // A round is long enough for the clock, and five rounds are made however long a launch takes. The peak is measured for
  // about as long as the launches between, so that a busy machine disturbs both alike.
  const double once = time(subject, threads, 1);
  const int repeats = static_cast<int>(std::clamp(5 / once, 1.0, 10000.0));
  const double window = std::clamp(once * repeats, 5.0, 50.0);
  const auto peakNow = [&] { return bench::measurePeakGflops(threads, options.compile.dtype, window); };
  std::vector<double> times, peaks, shares, backwards, both, ratios;
  Residual residual(std::max<int64_t>(options.residual, 1));
  if (options.backward)
    trainingStep(subject, options, threads, result.medianMs, residual); // compiles
  double spent = 0;
  for (double peak = peakNow(); times.size() < 5 || spent < options.seconds * 1e3;) {
    times.push_back(time(subject, threads, repeats));
    const double next = peakNow();
    peaks.push_back((peak + next) / 2);
    shares.push_back(subject.necessaryGflop() / (times.back() * 1e-3) / peaks.back());
    spent += times.back() * repeats;
    if (options.backward) {
      double forward = times.back();
      backwards.push_back(trainingStep(subject, options, threads, forward, residual));
      both.push_back(forward + backwards.back());
      ratios.push_back(both.back() / times.back());
      spent += backwards.back();
    }
    peak = next;
  }
  result.medianMs = median(times);
  result.leastMs = *std::min_element(times.begin(), times.end());
  result.peakGflops = median(peaks);
  result.shareOfPeak = median(shares);
  if (options.backward) {
    result.backwardMs = median(backwards);
    result.bothMs = median(both);
    result.toForward = median(ratios);
  }
  return result;
}

std::string dimsText(const CompileOptions &options) {
  std::string text;
  for (const auto &[name, value] : options.dims)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

/// Whether the work of a long sequence grows with its square.
bool isQuadratic(const Kernel &kernel) {
  constexpr int64_t kLong = 1 << 20;
  return kernel.necessaryMultiplyAdds(1, 1, 2 * kLong, 2 * kLong) >
         3 * kernel.necessaryMultiplyAdds(1, 1, kLong, kLong);
}

JsonObject toJson(const BenchOptions &options, const Kernel &kernel, const Measurement &measured, int threads) {
  const CompileOptions &compiled = options.compile;
  const double seconds = measured.medianMs * 1e-3;
  JsonObject object;
  object.add("spec", options.file)
      .add("attention", options.attention)
      .add("target", compiled.target.name())
      .add("dtype", toText(compiled.dtype))
      .add("batch", options.batch)
      .add("heads", options.heads)
      .add("length", options.length)
      .add("head_dim", compiled.headDim)
      .add("value_dim", compiled.valueDim ? compiled.valueDim : compiled.headDim)
      .add("set", dimsText(compiled))
      .add("chunk", compiled.schedule.chunk)
      .add("schedule", compiled.schedule.toText())
      .add("threads", static_cast<int64_t>(threads))
      .add("ms_median", measured.medianMs)
      .add("ms_min", measured.leastMs)
      .add("tokens_per_s", static_cast<double>(options.batch * options.length) / seconds)
      .add("gflops", measured.gflop / seconds)
      .add("peak_gflops", measured.peakGflops)
      .add("share_of_peak", measured.shareOfPeak)
      .add("extra_bytes", measured.extraBytes)
      .add("compile_ms", kernel.compileMilliseconds())
      .add("quadratic", isQuadratic(kernel))
      .add("machine", processorName())
      .add("date", nowText());
  if (options.backward)
    object.add("backward_ms_median", measured.backwardMs)
        .add("both_ms_median", measured.bothMs)
        .add("both_to_forward", measured.toForward)
        .add("residual", options.residual);
  return object;
}

void printTable(const BenchOptions &options, const Kernel &kernel, const Measurement &measured, int threads) {
  fmt::print("{} on {}, {} thread{}, B {} H {} N {}, {}\n", options.attention, options.compile.target.name(), threads,
             threads > 1 ? "s" : "", options.batch, options.heads, options.length, toText(options.compile.dtype));
  fmt::print("compile    {:.1f} ms\n", kernel.compileMilliseconds());
  fmt::print("forward    {:.3f} ms median, {:.3f} ms at best\n", measured.medianMs, measured.leastMs);
  if (options.backward)
    fmt::print("backward   {:.3f} ms median; forward and backward take {:.2f} forward passes\n", measured.backwardMs,
               measured.toForward);
  fmt::print("tokens     {:.0f} a second\n",
             static_cast<double>(options.batch * options.length) / (measured.medianMs * 1e-3));
  fmt::print("peak       {:.1f} % of {:.1f} GFLOP/s\n", 100 * measured.shareOfPeak, measured.peakGflops);
  fmt::print("memory     {:.1f} KB beside inputs and output\n", static_cast<double>(measured.extraBytes) / 1024);
}

int benchHost(const BenchOptions &options) {
  const Spec spec = loadSpec(options.file);
  const Kernel kernel = compile(spec, options.attention, options.compile).value();
  const int threads = options.threads ? options.threads : runtime::defaultThreads();
  const Measurement measured = measure(kernel, options, threads);
  if (options.json)
    fmt::print("{}\n", toJson(options, kernel, measured, threads).text());
  else
    printTable(options, kernel, measured, threads);
  return kSuccess;
}

} // namespace

int bench(const BenchOptions &options) {
  const std::optional<int> ordinal = runtime::cudaOrdinal(options.compile.target.name());
  for (const int64_t length : options.lengths.empty() ? std::vector{options.length} : options.lengths) {
    BenchOptions one = options;
    one.length = length;
    if (const int code = ordinal ? benchGpu(one, *ordinal) : benchHost(one); code != kSuccess)
      return code;
    std::fflush(stdout); // long measurements are seen as they come
  }
  return kSuccess;
}

} // namespace yaglom::tools
