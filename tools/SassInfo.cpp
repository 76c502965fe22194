// yaglom emit --stage sass-info: registers, spills and shared memory of an attention's kernels, by NVIDIA's assembler.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compiled.h"
#include "runtime/cuda/Assembler.h"
#include "tools/Commands.h"
#include "tools/Json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace yaglom::tools {
namespace {

using compiler::GpuKernel;

/// The GPU kernels of the program that the options choose.
std::vector<GpuKernel> kernelsOf(const EmitOptions &options) {
  const Spec spec = loadSpec(options.file);
  const Instance instance = runtime::bindOptions(spec, options.attention, options.compile).value();
  CompileOptions compile = options.compile;
  if (const auto device = runtime::cudaOrdinal(compile.target.name()))
    compile.target = Target::parse(runtime::cudaDevice(*device).value()->architecture()).value();
  if (!compiler::gpuArchitecture(compile.target.name()))
    throw Error(fmt::format("target '{}' has no stage 'sass-info'; name a GPU: --target sm_90", compile.target.name()));
  std::vector<GpuKernel> kernels;
  const auto add = [&](const compiler::Entry &entry) {
    if (entry.gpu.module)
      kernels.push_back(entry.gpu);
  };
  const auto program = compiler::load(compiler::build(instance, compile).value()).value();
  if (!options.backward) {
    add(program->forward);
    add(program->advance);
    for (const compiler::Entry &draw : program->draws)
      add(draw);
    return kernels;
  }
  const auto backward =
      compiler::load(compiler::buildBackward(instance, compile,
                                             options.residual ? program->keeps : compiler::Keeps::Nothing)
                         .value())
          .value();
  add(backward->backward);
  for (const compiler::Entry &draw : backward->draws)
    add(draw);
  return kernels;
}

struct Row {
  GpuKernel kernel;
  cuda::FunctionReport report;
};

void printTable(const std::string &assembler, const std::string &architecture, const std::vector<Row> &rows) {
  fmt::print("{} for {}\n", assembler, architecture);
  fmt::print("{:<12} {:>7} {:>9} {:>7} {:>7} {:>9} {:>9} {:>8}\n", "kernel", "threads", "registers", "spilled", "stack",
             "shared", "scratch", "barriers");
  for (const auto &[kernel, report] : rows)
    fmt::print("{:<12} {:>7} {:>9} {:>7} {:>7} {:>9} {:>9} {:>8}\n", kernel.name, kernel.threads, report.registers,
               report.spillStoreBytes, report.stackBytes, report.sharedBytes + kernel.sharedBytes, kernel.scratchBytes,
               report.barriers);
  fmt::print("registers, and bytes spilled and of stack, a thread; bytes of shared memory and scratch a block\n");
}

void printJson(const std::string &assembler, const std::string &architecture, const std::vector<Row> &rows) {
  std::vector<std::string> kernels;
  for (const auto &[kernel, report] : rows)
    kernels.push_back(JsonObject()
                          .add("kernel", kernel.name)
                          .add("threads", kernel.threads)
                          .add("registers", static_cast<int64_t>(report.registers))
                          .add("spill_store_bytes", static_cast<int64_t>(report.spillStoreBytes))
                          .add("spill_load_bytes", static_cast<int64_t>(report.spillLoadBytes))
                          .add("stack_bytes", static_cast<int64_t>(report.stackBytes))
                          .add("static_shared_bytes", static_cast<int64_t>(report.sharedBytes))
                          .add("dynamic_shared_bytes", kernel.sharedBytes)
                          .add("scratch_bytes", kernel.scratchBytes)
                          .add("barriers", static_cast<int64_t>(report.barriers))
                          .text());
  fmt::print("{}\n", JsonObject()
                         .add("assembler", assembler)
                         .add("architecture", architecture)
                         .addRaw("kernels", fmt::format("[{}]", fmt::join(kernels, ", ")))
                         .text());
}

} // namespace

int sassInfo(const EmitOptions &options) {
  const auto assembler = cuda::assemblerFromEnvironment();
  if (!assembler)
    throw Error(fmt::format("sass-info needs NVIDIA's assembler: {}", assembler.error().what()));
  const std::vector<GpuKernel> kernels = kernelsOf(options);
  if (kernels.empty())
    throw Error("the program has no kernel");
  const compiler::GpuModule &module = *kernels.front().module;
  const cuda::Assembly assembly = (*assembler)->assemble(module.ptx, {.architecture = module.architecture}).value();
  std::vector<Row> rows;
  for (const GpuKernel &kernel : kernels) {
    const cuda::FunctionReport *report = assembly.report.find(kernel.name);
    if (!report)
      throw Error(fmt::format("the assembler says nothing of kernel '{}':\n{}", kernel.name, assembly.report.log));
    rows.push_back({kernel, *report});
  }
  const std::string version = (*assembler)->version().value();
  (options.json ? printJson : printTable)(version, module.architecture, rows);
  for (const std::string &warning : assembly.report.warnings)
    printError("warning: " + warning);
  return kSuccess;
}

} // namespace yaglom::tools
