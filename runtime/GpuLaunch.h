// Launching compiled GPU kernels: one block a part of a work item, all of them in one launch.
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
  int64_t itemBytes = 0;  ///< from one item's states to the next
  int64_t stateBytes = 0; ///< of one state

  int64_t parts = 1;      ///< blocks of an item
  int64_t partRows = 0;   ///< of each but the last, where there are several
  int64_t partStates = 0; ///< at stateIn, from one part's state to the next; 0: one for all

  /// Where the states before every `keepRows`-th row go, `keepCount` of an item one after the other, or null.
  char *keep = nullptr;
  int64_t keepRows = 1, keepCount = 0;
};

/// Runs `entry`, a GPU kernel, on every part of every item of `grid`. Throws Error.
void launchGpu(const compiler::Entry &entry, const Grid &grid, std::span<const Operand> operands,
               const StateWords &state, GpuSession &session);

} // namespace yaglom::runtime
