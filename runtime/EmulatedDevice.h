// The emulator as a device, and its reports on what ran there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Emulator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace yaglom::runtime {

/// Collects the emulator's reports on the launches that this thread makes while it lives.
class EmulatorReports {
public:
  EmulatorReports();
  ~EmulatorReports();
  EmulatorReports(const EmulatorReports &) = delete;
  EmulatorReports &operator=(const EmulatorReports &) = delete;

  struct Launch {
    std::string kernel;
    int64_t blocks;
    emulator::Report report;
  };
  std::vector<Launch> launches;
  static constexpr int64_t kMultiprocessors = 108;                    ///< of an A100
  int64_t multiprocessors = kMultiprocessors;                         ///< that the device has for these launches
  uint64_t instructionBudget = emulator::Options().instructionBudget; ///< of these launches, a block

private:
  EmulatorReports *outer;
};

} // namespace yaglom::runtime
