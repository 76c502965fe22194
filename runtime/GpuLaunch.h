// Launching GPU kernels: one block a work item, all of them in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Launch.h"
#include "runtime/emulator/Emulator.h"

#include <vector>

namespace yaglom::runtime {

/// What the header words of a launch say beside its grid.
struct StateWords {
  int64_t queryRows = 0, keyRows = 0; ///< rows to end before
  int64_t begin = 0;                  ///< the row to begin with
  char *stateIn = nullptr;            ///< of item 0, or null
  char *stateOut = nullptr;
  int64_t itemBytes = 0;  ///< from one item's state to the next
  int64_t stateBytes = 0; ///< of one state
};

/// Runs `entry`, a GPU kernel, on every item of `grid`. Throws Error when the emulator finds a mistake of the kernel, which is a
/// bug of ours.
void launchGpu(const compiler::Entry &entry, const Grid &grid, std::span<const Operand> operands, int threads,
               const StateWords &state);

/// Collects the emulator's reports on the launches that this thread makes while it lives.
class EmulatorReports {
public:
  EmulatorReports();
  ~EmulatorReports();
  EmulatorReports(const EmulatorReports &) = delete;
  EmulatorReports &operator=(const EmulatorReports &) = delete;

  struct Launch {
    std::string kernel;
    emulator::Report report;
  };
  std::vector<Launch> launches;
  uint64_t instructionBudget = emulator::Options().instructionBudget; ///< of these launches, a block

private:
  EmulatorReports *outer;
};

} // namespace yaglom::runtime
