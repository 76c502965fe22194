// How long does compiling each shipped attention take in a warm process, without the cache?
// SPDX-License-Identifier: Apache-2.0
#include "bench/ShippedSpec.h"
#include "compiler/Program.h"

#include <benchmark/benchmark.h>

#include <filesystem>
#include <set>

namespace {

using namespace yaglom;

/// The front end alone: text to a checked tree.
void parse(benchmark::State &state, const std::string &spec) {
  for (auto _ : state)
    benchmark::DoNotOptimize(bench::shippedSpec(spec));
}

/// Everything after it: a bound attention to machine code.
void build(benchmark::State &state, const Spec &spec, const std::string &attention) {
  for (auto _ : state) {
    const Instance instance = instantiate(spec.file(), attention, {{"d", 64}, {"e", 64}}).value();
    benchmark::DoNotOptimize(compiler::build(instance, {.headDim = 64}).value());
  }
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  std::set<std::string> names; // sorted: the same order on every machine
  for (const auto &entry : std::filesystem::directory_iterator(YAGLOM_SOURCE_DIR "/examples/specs"))
    if (entry.path().extension() == ".phi")
      names.insert(entry.path().stem());
  for (const std::string &name : names) {
    const Spec spec = bench::shippedSpec(name);
    benchmark::RegisterBenchmark(("parse/" + name).c_str(), parse, name)->Unit(benchmark::kMillisecond);
    for (const std::string &attention : spec.attentions())
      benchmark::RegisterBenchmark(("build/" + attention).c_str(), build, spec, attention)
          ->Unit(benchmark::kMillisecond)
          ->Repetitions(3)
          ->ReportAggregatesOnly();
  }
  benchmark::RunSpecifiedBenchmarks();
}
