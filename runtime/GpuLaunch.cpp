// The words of a GPU kernel (compiler/targets/nvgpu/KernelAbi.h), whatever device runs it.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/GpuLaunch.h"

#include "compiler/targets/nvgpu/KernelAbi.h"
#include "runtime/GpuDevice.h"

#include <algorithm>
#include <array>

namespace yaglom::runtime {
namespace {

using compiler::nvgpu::KernelAbi;
using Memory = GpuPointer::Memory;

/// From the first element of item 0 to the last that any item has.
std::size_t extentBytes(const Operand &operand, const Grid &grid) {
  if (operand.rows == 0 || operand.width == 0)
    return 0;
  const int64_t last = (grid.batch - 1) * operand.batchStride + (grid.heads - 1) * operand.headStride +
                       (operand.rows - 1) * operand.rowStride + (operand.width - 1) * operand.columnStride;
  return static_cast<std::size_t>(last + 1) * sizeOf(operand.dtype);
}

/// Makes the words of one launch, and says which are addresses.
class Words {
public:
  Words(const compiler::GpuKernel &kernel, const Grid &grid, int64_t parts)
      : grid(grid), items(grid.batch * grid.heads) {
    work.kernel = &kernel;
    work.blocks = items * parts;
    work.words.resize(KernelAbi::kHeaderWords);
  }

  void setHeader(const StateWords &state) {
    work.words[KernelAbi::QueryRows] = state.queryRows;
    work.words[KernelAbi::KeyRows] = state.keyRows;
    work.words[KernelAbi::Position] = 1;
    work.words[KernelAbi::Length] = std::max(grid.queryRows, grid.keyRows); // (T11)
    work.words[KernelAbi::Begin] = state.begin;
    work.words[KernelAbi::Heads] = grid.heads;
    work.words[KernelAbi::StateBytes] = state.itemBytes;
    work.words[KernelAbi::Parts] = state.parts;
    work.words[KernelAbi::PartRows] = state.parts > 1 ? state.partRows : state.queryRows;
    work.words[KernelAbi::PartBytes] = state.partStates * state.stateBytes;
    work.words[KernelAbi::KeepRows] = state.keepRows;
    work.words[KernelAbi::KeepCount] = state.keepCount;
    work.words[KernelAbi::KeepBytes] = state.stateBytes;
    const auto states = [&](KernelAbi::Word word, std::string_view name, char *data, int64_t last, bool written) {
      const auto bytes = static_cast<std::size_t>((items - 1) * state.itemBytes + (last + 1) * state.stateBytes);
      if (data)
        work.pointers.push_back({static_cast<std::size_t>(word), name, Memory::Device, data, bytes, written});
    };
    states(KernelAbi::StateIn, "state in", state.stateIn, (state.parts - 1) * state.partStates, false);
    states(KernelAbi::StateOut, "state out", state.stateOut, 0, true);
    states(KernelAbi::Keep, "kept states", state.keep, state.keepCount - 1, true);
    work.words[KernelAbi::ScratchBytes] = work.kernel->scratchBytes;
    if (work.kernel->scratchBytes)
      lend(KernelAbi::Scratch, "scratch", work.blocks * work.kernel->scratchBytes);
  }

  void add(std::string_view name, const Operand &operand) {
    const std::size_t word = work.words.size();
    work.words.resize(word + KernelAbi::kOperandWords);
    std::array<int64_t, 4> strides{operand.batchStride, operand.headStride, operand.rowStride, operand.columnStride};
    if (operand.isLent) {
      const int64_t ofItem = operand.rows * operand.width;
      strides = {grid.heads * ofItem, ofItem, operand.width, 1};
      lend(word, name, items * ofItem * static_cast<int64_t>(sizeOf(operand.dtype)));
    } else if (const std::size_t bytes = extentBytes(operand, grid)) {
      work.pointers.push_back(
          {word, name, operand.onDevice ? Memory::Device : Memory::Host, operand.data, bytes, operand.written});
    }
    std::copy(strides.begin(), strides.end(), work.words.begin() + static_cast<std::ptrdiff_t>(word) + 1);
  }

  GpuWork work;

private:
  void lend(std::size_t word, std::string_view name, int64_t bytes) {
    work.pointers.push_back({word, name, Memory::Lent, nullptr, static_cast<std::size_t>(bytes), true});
  }

  const Grid &grid;
  const int64_t items;
};

} // namespace

void launchGpu(const compiler::Entry &entry, const Grid &grid, std::span<const Operand> operands,
               const StateWords &state, GpuSession &session) {
  if (grid.batch * grid.heads == 0)
    return;
  Words words(entry.gpu, grid, state.parts);
  words.setHeader(state);
  for (std::size_t i = 0; i < operands.size(); ++i)
    words.add(i < entry.operands.size() ? std::string_view(entry.operands[i]) : "lent", operands[i]);
  session.launch(words.work);
}

} // namespace yaglom::runtime
