// Launching a compiled function: the argument words of each work item, rows packed where they are not dense.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Launch.h"

#include "runtime/Pool.h"
#include "runtime/Scratch.h"

#include <algorithm>
#include <utility>

namespace yaglom::runtime {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t roundUp(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// A launch, shared by its threads and read only. The scratch of a thread holds, one after the other: the argument
/// words, the scratch of the compiled function, and the dense rows of every packed operand.
struct Context {
  const compiler::Entry &entry;
  const Grid &grid;
  std::span<const Operand> operands;
  std::size_t elementBytes;
  std::size_t functionScratch; ///< offset
  std::size_t packedRows;      ///< offset
  std::size_t totalBytes;

  std::size_t packedBytes(const Operand &operand) const {
    return operand.isPacked() ? roundUp(static_cast<std::size_t>(operand.rows * operand.width) * elementBytes) : 0;
  }
};

/// Copies between the strided rows of an operand at `strided` and dense rows at `dense`.
template <typename T, bool toDense>
void copyRows(const Operand &operand, char *strided, char *dense) {
  T *rows = reinterpret_cast<T *>(strided);
  T *packed = reinterpret_cast<T *>(dense);
  for (int64_t row = 0; row < operand.rows; ++row)
    for (int64_t column = 0; column < operand.width; ++column) {
      T &there = rows[row * operand.rowStride + column * operand.columnStride];
      T &here = packed[row * operand.width + column];
      if constexpr (toDense)
        here = there;
      else
        there = here;
    }
}

template <bool toDense>
void copyRows(const Context &context, const Operand &operand, char *strided, char *dense) {
  if (context.elementBytes == sizeof(float))
    copyRows<float, toDense>(operand, strided, dense);
  else
    copyRows<double, toDense>(operand, strided, dense);
}

char *itemAddress(const Context &context, const Operand &operand, int64_t batch, int64_t head) {
  if (operand.rows == 0)
    return operand.data; // may be null
  const int64_t offset = batch * operand.batchStride + head * operand.headStride;
  return operand.data + offset * static_cast<int64_t>(context.elementBytes);
}

void writeHeader(const Grid &grid, int64_t *words) {
  words[0] = grid.queryRows;
  words[1] = grid.keyRows;
  words[2] = 1;
  words[3] = std::max(grid.queryRows, grid.keyRows); // (T11)
  words[4] = 0;
  words[5] = 1;
  words[6] = words[7] = 0;
}

void runItem(const Context &context, int64_t item, char *scratch) {
  const int64_t batch = item / context.grid.heads;
  const int64_t head = item % context.grid.heads;
  int64_t *words = reinterpret_cast<int64_t *>(scratch) + compiler::Entry::kHeaderWords;
  char *dense = scratch + context.packedRows;
  for (const Operand &operand : context.operands) {
    char *address = itemAddress(context, operand, batch, head);
    int64_t rowStride = operand.rowStride;
    if (operand.isPacked()) {
      if (!operand.written)
        copyRows<true>(context, operand, address, dense);
      address = std::exchange(dense, dense + context.packedBytes(operand));
      rowStride = operand.width;
    }
    *words++ = reinterpret_cast<intptr_t>(address);
    *words++ = rowStride;
  }

  context.entry.function(reinterpret_cast<int64_t *>(scratch), scratch + context.functionScratch);

  dense = scratch + context.packedRows;
  for (const Operand &operand : context.operands) {
    if (operand.isPacked() && operand.written)
      copyRows<false>(context, operand, itemAddress(context, operand, batch, head), dense);
    dense += context.packedBytes(operand);
  }
}

} // namespace

void launch(const compiler::Entry &entry, int64_t scratchBytes, const Grid &grid, std::span<const Operand> operands,
            DType dtype, int threads) {
  const std::size_t words = compiler::Entry::kHeaderWords + 2 * operands.size();
  Context context{entry, grid, operands, sizeOf(dtype), roundUp(words * sizeof(int64_t)), 0, 0};
  context.packedRows = context.functionScratch + roundUp(static_cast<std::size_t>(scratchBytes));
  context.totalBytes = context.packedRows;
  for (const Operand &operand : operands)
    context.totalBytes += context.packedBytes(operand);

  parallelFor(grid.batch * grid.heads, threads, [&context](int64_t begin, int64_t end) {
    char *scratch = static_cast<char *>(threadScratch(context.totalBytes));
    writeHeader(context.grid, reinterpret_cast<int64_t *>(scratch));
    for (int64_t item = begin; item < end; ++item)
      runItem(context, item, scratch);
  });
}

} // namespace yaglom::runtime
