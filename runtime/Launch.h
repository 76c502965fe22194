// Launching a compiled function: one call for each work item, with addresses worked out from strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "runtime/GpuDevice.h"
#include "yaglom/tensor.h"

#include <cstdint>
#include <memory>
#include <span>

namespace yaglom::runtime {

/// One operand of a launch: a matrix of `rows` x `width` elements for each (batch, head). Strides are in elements.
struct Operand {
  char *data = nullptr; ///< item (0, 0); written only when `written`
  bool written = false;
  int64_t batchStride = 0;
  int64_t headStride = 0;
  int64_t rowStride = 0;
  int64_t columnStride = 1;
  int64_t rows = 0;
  int64_t width = 1;
  DType dtype = DType::f32;
  bool isLent = false;   ///< no data: each thread lends scratch for the rows of the item it is at
  bool onDevice = false; ///< data is memory of the kernel's GPU, not of the host

  /// Kernels read dense rows; others are copied to scratch for the time of the item.
  bool isPacked() const { return columnStride != 1 && width > 1; }
};

/// A grid of work items: item i is batch i / heads, head i % heads. Everything else that an item is told stands in the header
/// words of compiler::Entry.
struct Grid {
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t queryRows = 0;
  int64_t keyRows = 0;
  int64_t segmentRows = 0; ///< of a gradient from kept states
};

/// Where a forward launch leaves states: `states` of each item, one after the other, `itemBytes` an item.
struct KeptStates {
  compiler::Keeps keeps;
  char *data;
  int64_t itemBytes, states, segmentRows;
};

/// What runs the launches of one call of the user: threads of the host, or a session of the kernel's GPU.
class Execution {
public:
  /// On at most `threads` threads.
  explicit Execution(int threads) : threads(threads) {}
  /// On `device`, or on threads where it is null.
  Execution(const std::shared_ptr<GpuDevice> &device, const SessionOptions &options)
      : threads(options.threads), session(device ? device->begin(options) : nullptr) {}

  /// After the last launch.
  void finish() const {
    if (session)
      session->finish();
  }

  const int threads;
  const std::unique_ptr<GpuSession> session; ///< null on the host
};

/// Runs `entry` on every item of `grid` and returns when all are done, or enqueued on the GPU. Items are independent: which
/// thread computes one, and in which order, changes no bit. The operands are checked before.
void launch(const compiler::Entry &entry, int64_t scratchBytes, const Grid &grid, std::span<const Operand> operands,
            DType dtype, const Execution &how);

/// The same for the forward function of `program`. When the items are fewer than the threads, each is split along the
/// sequence: one thread runs ahead through the keys and hands out states, the others compute the rows between two of them.
/// A state is the same bits wherever it is computed, so the outputs are too. `segments`: parts for each thread, 0 for as many
/// as are usual.
void launchForward(const compiler::Program &program, int64_t segments, const Grid &grid,
                   std::span<const Operand> operands, DType dtype, const Execution &how);

/// The same, segment by segment; leaves the state before each, or that after the last row.
void launchKeeping(const compiler::Program &program, const Grid &grid, std::span<const Operand> operands, DType dtype,
                   const Execution &how, const KeptStates &kept);

} // namespace yaglom::runtime
