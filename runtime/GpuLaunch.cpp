// The words of a GPU kernel (compiler/targets/nvgpu/KernelAbi.h), and the emulator as the device.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/GpuLaunch.h"

#include "compiler/targets/nvgpu/KernelAbi.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::runtime {
namespace {

using compiler::nvgpu::KernelAbi;

thread_local EmulatorReports *observer = nullptr;

/// From the first element of item 0 to the last that any item has.
std::size_t extentBytes(const Operand &operand, const Grid &grid) {
  if (operand.rows == 0 || operand.width == 0)
    return 0;
  const int64_t last = (grid.batch - 1) * operand.batchStride + (grid.heads - 1) * operand.headStride +
                       (operand.rows - 1) * operand.rowStride + (operand.width - 1) * operand.columnStride;
  return static_cast<std::size_t>(last + 1) * sizeOf(operand.dtype);
}

/// One launch on the emulator: its words, and the memory that they point to.
class EmulatedLaunch {
public:
  EmulatedLaunch(const compiler::GpuKernel &kernel, const Grid &grid)
      : kernel(kernel), grid(grid), items(grid.batch * grid.heads) {
    launch.kernel = kernel.name;
    launch.grid = {static_cast<uint32_t>(items), 1, 1};
    launch.block = {static_cast<uint32_t>(kernel.threads), 1, 1};
    launch.dynamicSharedBytes = static_cast<uint64_t>(kernel.sharedBytes);
    launch.arguments.resize(KernelAbi::kHeaderWords, int64_t{0});
  }

  void setHeader(const StateWords &state) {
    launch.arguments[KernelAbi::QueryRows] = state.queryRows;
    launch.arguments[KernelAbi::KeyRows] = state.keyRows;
    launch.arguments[KernelAbi::Position] = int64_t{1};
    launch.arguments[KernelAbi::Length] = std::max(grid.queryRows, grid.keyRows); // (T11)
    launch.arguments[KernelAbi::Begin] = state.begin;
    launch.arguments[KernelAbi::Heads] = grid.heads;
    launch.arguments[KernelAbi::StateBytes] = state.itemBytes;
    const auto states = static_cast<std::size_t>((items - 1) * state.itemBytes + state.stateBytes);
    if (state.stateIn)
      point(KernelAbi::StateIn, {"state in", state.stateIn, states, false});
    if (state.stateOut)
      point(KernelAbi::StateOut, {"state out", state.stateOut, states, true});
    launch.arguments[KernelAbi::ScratchBytes] = kernel.scratchBytes;
    if (kernel.scratchBytes)
      point(KernelAbi::Scratch, lend("scratch", static_cast<std::size_t>(items * kernel.scratchBytes)));
  }

  void add(const std::string &name, const Operand &operand) {
    const std::size_t word = launch.arguments.size();
    launch.arguments.resize(word + KernelAbi::kOperandWords, int64_t{0});
    std::array<int64_t, 4> strides{operand.batchStride, operand.headStride, operand.rowStride, operand.columnStride};
    if (operand.isLent) {
      const int64_t ofItem = operand.rows * operand.width;
      strides = {grid.heads * ofItem, ofItem, operand.width, 1};
      point(word, lend(name, static_cast<std::size_t>(items * ofItem) * sizeOf(operand.dtype)));
    } else if (const std::size_t bytes = extentBytes(operand, grid)) {
      point(word, {name, operand.data, bytes, operand.written});
    }
    for (std::size_t i = 0; i < strides.size(); ++i)
      launch.arguments[word + 1 + i] = strides[i];
  }

  void run(int threads) {
    std::call_once(kernel.module->once, [&] {
      kernel.module->loaded =
          std::make_shared<Result<emulator::Module>>(emulator::Module::parse(kernel.module->ptx));
    });
    const auto &module = *static_cast<const Result<emulator::Module> *>(kernel.module->loaded.get());
    if (!module)
      throw Error(fmt::format("internal error: the emulator refuses our PTX: {}", module.error().what()));
    emulator::Options options{.threads = threads};
    if (observer)
      options.instructionBudget = observer->instructionBudget;
    const Result<emulator::Report> report = emulator::run(*module, launch, buffers, options);
    if (!report)
      throw Error(fmt::format("internal error: launching '{}': {}", kernel.name, report.error().what()));
    if (observer)
      observer->launches.push_back({kernel.name, *report});
    if (!report->clean())
      throw Error(fmt::format("internal error: the emulator found mistakes in '{}':\n{}", kernel.name,
                              report->findingsText()));
  }

private:
  void point(std::size_t word, emulator::Buffer buffer) {
    buffer.name = fmt::format("{}: {}", buffers.size(), buffer.name); // names may repeat
    launch.arguments[word] = emulator::Pointer{buffer.name, 0};
    buffers.push_back(std::move(buffer));
  }
  /// Memory that holds nothing yet.
  emulator::Buffer lend(const std::string &name, std::size_t bytes) {
    lent.emplace_back(bytes);
    return {name, lent.back().data(), bytes, true, false};
  }

  const compiler::GpuKernel &kernel;
  const Grid &grid;
  const int64_t items;
  emulator::Launch launch;
  std::vector<emulator::Buffer> buffers;
  std::vector<std::vector<std::byte>> lent;
};

} // namespace

EmulatorReports::EmulatorReports() : outer(observer) { observer = this; }
EmulatorReports::~EmulatorReports() { observer = outer; }

void launchGpu(const compiler::Entry &entry, const Grid &grid, std::span<const Operand> operands, int threads,
               const StateWords &state) {
  if (grid.batch * grid.heads == 0)
    return;
  EmulatedLaunch launch(entry.gpu, grid);
  launch.setHeader(state);
  for (std::size_t i = 0; i < operands.size(); ++i)
    launch.add(i < entry.operands.size() ? entry.operands[i] : "lent", operands[i]);
  launch.run(threads);
}

} // namespace yaglom::runtime
