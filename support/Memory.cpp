// Resident memory of this process from Linux's /proc.
// SPDX-License-Identifier: Apache-2.0
#include "support/Memory.h"

#include <fstream>
#include <string>

namespace yaglom {
namespace {

int64_t statusBytes(const std::string &field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field))
      return std::stoll(line.substr(field.size())) * 1024;
  return 0;
}

} // namespace

int64_t residentBytes() { return statusBytes("VmRSS:"); }
int64_t peakBytes() { return statusBytes("VmHWM:"); }
void resetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

} // namespace yaglom
