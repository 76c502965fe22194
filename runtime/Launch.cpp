// Launching a compiled function: the argument words of each work item, rows packed where they are not dense.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Launch.h"

#include "runtime/GpuLaunch.h"
#include "runtime/GpuParts.h"
#include "runtime/Pool.h"
#include "runtime/Scratch.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

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
    return operand.isPacked() || operand.isLent
               ? roundUp(static_cast<std::size_t>(operand.rows * operand.width) * elementBytes)
               : 0;
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
  if (operand.rows == 0 || operand.isLent)
    return operand.data; // may be null
  const int64_t offset = batch * operand.batchStride + head * operand.headStride;
  return operand.data + offset * static_cast<int64_t>(context.elementBytes);
}

void writeHeader(const Grid &grid, int64_t *words) {
  words[0] = grid.queryRows;
  words[1] = grid.keyRows;
  words[2] = 1;
  words[3] = std::max(grid.queryRows, grid.keyRows); // (T11)
  words[4] = grid.segmentRows;
  words[5] = words[6] = words[7] = 0;
}

/// Binds the operands to the item and lets `run` call functions with them.
template <typename Run>
void withItem(const Context &context, int64_t item, char *scratch, Run run) {
  const int64_t batch = item / context.grid.heads;
  const int64_t head = item % context.grid.heads;
  int64_t *words = reinterpret_cast<int64_t *>(scratch) + compiler::Entry::kHeaderWords;
  char *dense = scratch + context.packedRows;
  for (const Operand &operand : context.operands) {
    char *address = itemAddress(context, operand, batch, head);
    int64_t rowStride = operand.rowStride;
    if (operand.isPacked() || operand.isLent) {
      if (operand.isPacked() && !operand.written)
        copyRows<true>(context, operand, address, dense);
      address = std::exchange(dense, dense + context.packedBytes(operand));
      rowStride = operand.width;
    }
    *words++ = reinterpret_cast<intptr_t>(address);
    *words++ = rowStride;
  }

  run();

  dense = scratch + context.packedRows;
  for (const Operand &operand : context.operands) {
    if (operand.isPacked() && operand.written)
      copyRows<false>(context, operand, itemAddress(context, operand, batch, head), dense);
    dense += context.packedBytes(operand);
  }
}

void call(const Context &context, const compiler::Entry &entry, char *scratch) {
  entry.function(reinterpret_cast<int64_t *>(scratch), scratch + context.functionScratch);
}

void runItem(const Context &context, const compiler::Entry &entry, int64_t item, char *scratch) {
  withItem(context, item, scratch, [&] { call(context, entry, scratch); });
}

} // namespace

static Context makeContext(const compiler::Entry &entry, int64_t scratchBytes, const Grid &grid,
                           std::span<const Operand> operands, DType dtype) {
  const std::size_t words = compiler::Entry::kHeaderWords + 2 * operands.size();
  Context context{entry, grid, operands, sizeOf(parameterType(dtype)), roundUp(words * sizeof(int64_t)), 0, 0};
  context.packedRows = context.functionScratch + roundUp(static_cast<std::size_t>(scratchBytes));
  context.totalBytes = context.packedRows;
  for (const Operand &operand : operands)
    context.totalBytes += context.packedBytes(operand);
  return context;
}

void launch(const compiler::Entry &entry, int64_t scratchBytes, const Grid &grid, std::span<const Operand> operands,
            DType dtype, const Execution &how) {
  if (entry.gpu.module)
    return launchGpu(entry, grid, operands,
                     {.queryRows = grid.queryRows, .keyRows = grid.keyRows, .begin = grid.segmentRows}, *how.session);
  const Context context = makeContext(entry, scratchBytes, grid, operands, dtype);
  parallelFor(grid.batch * grid.heads, how.threads, [&context](int64_t begin, int64_t end) {
    char *scratch = static_cast<char *>(threadScratch(context.totalBytes));
    writeHeader(context.grid, reinterpret_cast<int64_t *>(scratch));
    for (int64_t item = begin; item < end; ++item)
      runItem(context, context.entry, item, scratch);
  });
}

namespace {

/// A launch whose items are split into parts along the sequence. Tasks are taken in order: first each item's run through
/// its keys, which hands out the states between parts, then the parts. A part waits for its state at most as long as the run
/// that makes it, which has been taken before, so this ends on any number of threads.
class SplitLaunch {
public:
  SplitLaunch(const compiler::Program &program, const Context &context, int64_t partsWanted)
      : program(program), context(context), items(context.grid.batch * context.grid.heads) {
    const int64_t chunks = (context.grid.queryRows + program.chunk - 1) / program.chunk;
    rowsOfPart = (chunks + partsWanted - 1) / partsWanted * program.chunk;
    parts = (context.grid.queryRows + rowsOfPart - 1) / rowsOfPart;
    stateWords =
        static_cast<int64_t>(roundUp(static_cast<std::size_t>(program.stateElements) * context.elementBytes)) / 8;
    states.resize(static_cast<std::size_t>(items * statesOfItem() * stateWords));
    ready = std::vector<std::atomic<int64_t>>(static_cast<std::size_t>(items));
  }

  /// Works on tasks until none is left; every thread calls it.
  void work() {
    char *scratch = static_cast<char *>(threadScratch(context.totalBytes));
    const int64_t runs = program.parts == compiler::Parts::Independent ? 0 : items;
    for (int64_t task; (task = next.fetch_add(1)) < runs + items * parts;) {
      if (task < runs)
        runAhead(task, scratch);
      else
        runPart((task - runs) % items, (task - runs) / items, scratch);
    }
  }

private:
  bool isPrefix() const { return program.parts == compiler::Parts::Prefix; }
  /// A causal part has the state of the keys before it, the others that of all keys.
  int64_t statesOfItem() const { return isPrefix() ? parts - 1 : program.parts == compiler::Parts::Whole ? 1 : 0; }
  int64_t state(int64_t item, int64_t index) {
    return reinterpret_cast<intptr_t>(states.data() + (item * statesOfItem() + index) * stateWords);
  }

  void call(const compiler::Entry &entry, int64_t item, char *scratch, int64_t begin, int64_t end, int64_t keys,
            int64_t stateIn, int64_t stateOut) {
    int64_t *words = reinterpret_cast<int64_t *>(scratch);
    writeHeader(context.grid, words);
    words[0] = end;
    words[1] = keys;
    words[4] = begin;
    words[5] = stateIn;
    words[6] = stateOut;
    runItem(context, entry, item, scratch);
  }

  void runAhead(int64_t item, char *scratch) {
    std::atomic<int64_t> &done = ready[static_cast<std::size_t>(item)];
    for (int64_t i = 0; i < statesOfItem(); ++i) {
      const int64_t begin = isPrefix() ? i * rowsOfPart : 0;
      const int64_t end = isPrefix() ? begin + rowsOfPart : context.grid.keyRows;
      call(program.advance, item, scratch, begin, end, end, i ? state(item, i - 1) : 0, state(item, i));
      done.store(i + 1, std::memory_order_release);
    }
  }

  void runPart(int64_t item, int64_t part, char *scratch) {
    const int64_t needed = isPrefix() ? part : statesOfItem(), begin = part * rowsOfPart;
    while (ready[static_cast<std::size_t>(item)].load(std::memory_order_acquire) < needed)
      std::this_thread::yield();
    const int64_t end = std::min(begin + rowsOfPart, context.grid.queryRows);
    call(program.forward, item, scratch, begin, end, context.grid.keyRows, needed ? state(item, needed - 1) : 0, 0);
  }

  const compiler::Program &program;
  const Context &context;
  int64_t items, parts = 1, rowsOfPart = 0, stateWords = 0;
  std::vector<int64_t> states;             ///< each item's states, one after the other
  std::vector<std::atomic<int64_t>> ready; ///< how many states of each item exist
  std::atomic<int64_t> next = 0;
};

} // namespace

void launchForward(const compiler::Program &program, int64_t segments, const Grid &grid,
                   std::span<const Operand> operands, DType dtype, const Execution &how) {
  if (program.forward.gpu.module)
    return launchGpuForward(program, grid, operands, dtype, *how.session);
  // A part of this many rows is worth the state before it.
  constexpr int64_t kLeastRows = 1024;
  const int64_t items = grid.batch * grid.heads, workers = how.threads ? how.threads : defaultThreads();
  const int64_t most = grid.queryRows / kLeastRows;
  const bool packed = std::any_of(operands.begin(), operands.end(), [](const Operand &o) { return o.isPacked(); });
  if (items >= workers || most < 2 || packed || program.parts == compiler::Parts::None)
    return launch(program.forward, program.scratchBytes, grid, operands, dtype, how);
  const Context context = makeContext(program.forward, program.scratchBytes, grid, operands, dtype);
  // Twice as many parts as threads: the last ones to finish are then half as long.
  const int64_t ofThread = segments ? segments : 2;
  SplitLaunch split(program, context, std::min(most, ofThread * (workers + items - 1) / items));
  parallelFor(workers, how.threads, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin)
      split.work();
  });
}

void launchKeeping(const compiler::Program &program, const Grid &grid, std::span<const Operand> operands, DType dtype,
                   const Execution &how, const KeptStates &kept) {
  if (program.forward.gpu.module)
    return launchGpuKeeping(program, grid, operands, dtype, *how.session, kept);
  const Context context = makeContext(program.forward, program.scratchBytes, grid, operands, dtype);
  const int64_t stateBytes = program.stateElements * static_cast<int64_t>(context.elementBytes);
  const bool isLast = kept.keeps == compiler::Keeps::Last;
  parallelFor(grid.batch * grid.heads, how.threads, [&](int64_t begin, int64_t end) {
    char *scratch = static_cast<char *>(threadScratch(context.totalBytes));
    int64_t *words = reinterpret_cast<int64_t *>(scratch);
    for (int64_t item = begin; item < end; ++item)
      withItem(context, item, scratch, [&] {
        const auto state = [&](int64_t index) {
          return reinterpret_cast<intptr_t>(kept.data + item * kept.itemBytes + index * stateBytes);
        };
        const int64_t rows = isLast ? grid.queryRows : kept.segmentRows;
        writeHeader(grid, words);
        words[0] = words[1] = 0;
        words[6] = state(0);
        if (!isLast)
          call(context, program.advance, scratch); // over no key: the state before the first
        for (int64_t first = 0, segment = 0; first < grid.queryRows; first += rows, ++segment) {
          writeHeader(grid, words);
          words[0] = std::min(first + rows, grid.queryRows);
          words[4] = first;
          words[5] = segment ? state(segment) : 0;
          words[6] = isLast ? state(0) : segment + 1 < kept.states ? state(segment + 1) : 0;
          call(context, program.forward, scratch);
        }
      });
  });
}

} // namespace yaglom::runtime
