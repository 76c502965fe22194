// What does a warm launch cost beside its work? One token, one head; and the split of one launch over many items.
// SPDX-License-Identifier: Apache-2.0
#include "bench/ShippedSpec.h"
#include "bench/Subject.h"
#include "runtime/Compiled.h"

#include <benchmark/benchmark.h>

namespace {

using namespace yaglom;

constexpr const char *kAttention = "linear_transformer"; // also the name of its file

Kernel smallKernel() { return compile(bench::shippedSpec(kAttention), kAttention, {.headDim = 16}).value(); }

/// The same kernel with code that does nothing: what is left is ours.
Kernel emptyKernel() {
  const Spec spec = bench::shippedSpec(kAttention);
  const CompileOptions options{.headDim = 16};
  const Instance instance = runtime::bindOptions(spec, kAttention, options).value();
  auto program = std::make_shared<compiler::Program>(compiler::build(instance, options).value());
  program->forward.function = [](const int64_t *, void *) {};
  auto compiled = runtime::makeCompiled(spec, instance, options, program).value();
  return Kernel(std::make_shared<const Kernel::Impl>(Kernel::Impl{compiled, 0}));
}

void oneToken(benchmark::State &state, Kernel (*make)()) {
  const bench::Subject subject(make(), {.heads = 1, .length = 1});
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
  const Spec spec = bench::shippedSpec(kAttention);
  compile(spec, kAttention, {.headDim = 16}).value();
  for (auto _ : state)
    benchmark::DoNotOptimize(compile(spec, kAttention, {.headDim = 16}).value());
}

BENCHMARK_CAPTURE(oneToken, whole, smallKernel)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(oneToken, withoutWork, emptyKernel)->Unit(benchmark::kMicrosecond);
BENCHMARK(manyItems)
    ->ArgsProduct({{2, 16, 70000}, {1, 2}})
    ->ArgNames({"items", "threads"})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(cachedCompile)->Unit(benchmark::kMicrosecond);

} // namespace
