// What does a warm launch cost beside its work? One token, one head; and the split of one launch over many items.
// SPDX-License-Identifier: Apache-2.0
#include "bench/ShippedSpec.h"
#include "bench/Subject.h"

#include <benchmark/benchmark.h>

namespace {

using namespace yaglom;

Kernel smallKernel() {
  return compile(bench::shippedSpec("linear_transformer"), "linear_transformer", {.headDim = 8}).value();
}

void oneToken(benchmark::State &state) {
  const bench::Subject subject(smallKernel(), {.heads = 1, .length = 1});
  for (auto _ : state)
    subject.forward(1);
}

void manyItems(benchmark::State &state) {
  const bench::Subject subject(smallKernel(), {.batch = state.range(0), .heads = 1, .length = 1});
  for (auto _ : state)
    subject.forward(static_cast<int>(state.range(1)));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// Asking for a kernel that is in the cache already.
void cachedCompile(benchmark::State &state) {
  const Spec spec = bench::shippedSpec("linear_transformer");
  compile(spec, "linear_transformer", {.headDim = 8}).value();
  for (auto _ : state)
    benchmark::DoNotOptimize(compile(spec, "linear_transformer", {.headDim = 8}).value());
}

BENCHMARK(oneToken)->Unit(benchmark::kMicrosecond);
BENCHMARK(manyItems)
    ->ArgsProduct({{2, 16, 70000}, {1, 2}})
    ->ArgNames({"items", "threads"})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(cachedCompile)->Unit(benchmark::kMicrosecond);

} // namespace
