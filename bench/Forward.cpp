// How fast is the forward pass, by attention, length and threads? As time, and as a share of the machine's peak.
// SPDX-License-Identifier: Apache-2.0
#include "bench/Peak.h"
#include "bench/ShippedSpec.h"
#include "bench/Subject.h"

#include <benchmark/benchmark.h>

#include <chrono>

namespace {

using namespace yaglom;

void forward(benchmark::State &state, const char *spec, const char *attention) {
  const int threads = static_cast<int>(state.range(1));
  const bench::Sizes sizes{.length = state.range(0)};
  const bench::Subject subject(compile(bench::shippedSpec(spec), attention).value(), sizes);
  double seconds = 0;
  double flops = 0;
  double peak = bench::measurePeakGflops(threads, DType::f32);
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    subject.forward(threads);
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    state.SetIterationTime(elapsed);
    seconds += elapsed;
    flops += subject.necessaryGflop();
  }
  peak = (peak + bench::measurePeakGflops(threads, DType::f32)) / 2;
  state.counters["tokens/s"] = static_cast<double>(state.iterations() * sizes.length) / seconds;
  state.counters["GFLOP/s"] = flops / seconds;
  state.counters["of_peak"] = flops / seconds / peak;
}

void sizes(benchmark::internal::Benchmark *benchmark) {
  benchmark->ArgsProduct({{1024, 4096, 16384}, {1, 2}})->ArgNames({"N", "threads"});
  benchmark->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(forward, flexformer_n, "flexformer_n", "flexformer_n_attention")->Apply(sizes);
BENCHMARK_CAPTURE(forward, flexformer_s, "flexformer_s", "flexformer_s_attention")->Apply(sizes);
BENCHMARK_CAPTURE(forward, fska_causal, "fska", "fska_causal")->Apply(sizes);
BENCHMARK_CAPTURE(forward, performer, "performer", "performer")->Apply(sizes);
BENCHMARK_CAPTURE(forward, linear_transformer, "linear_transformer", "linear_transformer")->Apply(sizes);
BENCHMARK_CAPTURE(forward, cosformer, "cosformer", "cosformer")->Apply(sizes);
BENCHMARK_CAPTURE(forward, hedgehog, "hedgehog", "hedgehog_attention")->Apply(sizes);
BENCHMARK_CAPTURE(forward, retention, "retention", "retention")->Apply(sizes);
BENCHMARK_CAPTURE(forward, rfa_gated, "rfa", "rfa_gated")->Apply(sizes);

} // namespace
