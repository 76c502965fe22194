// How long does compiling a shipped spec take in a warm process, without the cache?
// SPDX-License-Identifier: Apache-2.0
#include "bench/ShippedSpec.h"
#include "compiler/Program.h"

#include <benchmark/benchmark.h>

namespace {

using namespace yaglom;

/// The front end alone: text to a checked tree.
void parse(benchmark::State &state, const char *spec) {
  for (auto _ : state)
    benchmark::DoNotOptimize(bench::shippedSpec(spec));
}

/// Everything after it: a bound attention to machine code.
void build(benchmark::State &state, const char *name, const char *attention) {
  const Spec spec = bench::shippedSpec(name);
  for (auto _ : state) {
    const Instance instance = instantiate(spec.file(), attention, {{"d", 64}, {"e", 64}}).value();
    benchmark::DoNotOptimize(compiler::build(instance, {.headDim = 64}).value());
  }
}

BENCHMARK_CAPTURE(parse, flexformer_n, "flexformer_n")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, polaformer, "polaformer")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, cosformer, "cosformer", "cosformer")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, flexformer_n, "flexformer_n", "flexformer_n_attention")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, flexformer_s, "flexformer_s", "flexformer_s_attention")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, fska, "fska", "fska_causal")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, hedgehog, "hedgehog", "hedgehog_attention")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, linear_transformer, "linear_transformer", "linear_transformer")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, performer, "performer", "performer")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, polaformer, "polaformer", "polaformer")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, retention, "retention", "retention")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, rfa_gated, "rfa", "rfa_gated")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, softmax, "softmax", "exact")->Unit(benchmark::kMillisecond);

} // namespace
