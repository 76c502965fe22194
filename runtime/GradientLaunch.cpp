// The operands of a gradient, by name, then the rows that the launch lends, then the states that were kept.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/GradientLaunch.h"

#include "runtime/Residual.h"

#include <algorithm>

namespace yaglom::runtime {
namespace {

/// Rows that the launch lends, one matrix for each thread or item: the operand has no address of its own.
Operand lentRows(int64_t rows, int64_t width, DType dtype) {
  return {.rowStride = width, .rows = rows, .width = width, .dtype = dtype, .isLent = true};
}

/// One member of the states of each item.
Operand keptStates(const Compiled &compiled, const Residual::Impl &residual,
                   const compiler::GradientEntry::Member &member, int64_t heads) {
  const auto bytes = static_cast<int64_t>(sizeOf(compiled.parameterType()));
  const int64_t ofItem = residual.itemBytes / bytes;
  return {.data = residual.memory.data + member.offset * bytes,
          .batchStride = heads * ofItem,
          .headStride = ofItem,
          .rowStride = compiled.program->stateElements,
          .rows = residual.states,
          .width = member.elements,
          .dtype = compiled.parameterType(),
          .onDevice = true};
}

} // namespace

std::string tensorOf(const std::string &gradient) { return gradient.substr(std::string("grad.").size()); }

const HeadTensor *findHeadTensor(const Compiled &compiled, const std::string &name) {
  const auto found = std::find_if(compiled.headTensors.begin(), compiled.headTensors.end(),
                                  [&](const HeadTensor &tensor) { return tensor.name == name; });
  return found == compiled.headTensors.end() ? nullptr : &*found;
}

Operand bindPerItem(const HeadTensor &info, const HeadMemory &memory, int64_t heads) {
  Operand operand = bindHeadTensor(info, memory, true);
  operand.headStride = info.elements();
  operand.batchStride = heads * info.elements();
  return operand;
}

void GradientLaunch::run(const FindOperand &find, const Execution &how) const {
  const DType type = compiled.parameterType();
  std::vector<Operand> operands;
  const std::size_t inputs = entry.operands.size() - entry.gradients.size();
  for (std::size_t i = 0; i < entry.operands.size(); ++i)
    operands.push_back(find(entry.operands[i], i >= inputs));
  for (const int64_t width : entry.rowWidths)
    operands.push_back(lentRows(grid.queryRows, width, type));
  for (const compiler::GradientEntry::Member &member : entry.kept)
    operands.push_back(keptStates(compiled, *residual, member, grid.heads));
  for (const compiler::GradientEntry::Member &member : entry.kept)
    operands.push_back(lentRows(residual->segmentRows / program.chunk, member.elements, type));
  launch(entry, program.scratchBytes, grid, operands, compiled.options.dtype, how);
}

} // namespace yaglom::runtime
