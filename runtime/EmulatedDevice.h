// The emulator as a device, and its reports on what ran there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Emulator.h"

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
    emulator::Report report;
  };
  std::vector<Launch> launches;

private:
  EmulatorReports *outer;
};

} // namespace yaglom::runtime
