// The runtime's own GPU kernels: sums over items in a fixed order, in float64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/GpuDevice.h"

namespace yaglom::runtime {

/// Threads of a block, each of which has one sum.
inline constexpr int64_t kSumThreads = 256;

/// PTX for sm_80 and newer with one kernel for each element type.
std::string sumKernelsPtx();

/// What is summed: `items` of `elements` numbers each, [batch, heads, elements], over batch, and over heads when `shared`.
struct ItemSum {
  DType dtype = DType::f32;
  const char *items = nullptr;
  char *sums = nullptr;
  int64_t elements = 0, heads = 1, batch = 1;
  bool shared = false;
  bool adds = false; ///< to what `sums` holds, which is overwritten otherwise
};

/// Sums in the order and precision of sumItems() in Backward.h: the same bits. All memory is the device's.
void sumItems(const GpuDevice &device, const ItemSum &sum, GpuSession &session);

} // namespace yaglom::runtime
