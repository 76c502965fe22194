// Launching compiled GPU kernels: one block a work item, all of them in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Launch.h"

namespace yaglom::runtime {

/// What the header words of a launch say beside its grid.
struct StateWords {
  int64_t queryRows = 0, keyRows = 0; ///< rows to end before
  int64_t begin = 0;                  ///< the row to begin with
  char *stateIn = nullptr;            ///< of item 0, or null; memory of the device
  char *stateOut = nullptr;
  int64_t itemBytes = 0;  ///< from one item's state to the next
  int64_t stateBytes = 0; ///< of one state
};

/// Runs `entry`, a GPU kernel, on every item of `grid`. Throws Error.
void launchGpu(const compiler::Entry &entry, const Grid &grid, std::span<const Operand> operands,
               const StateWords &state, GpuSession &session);

} // namespace yaglom::runtime
