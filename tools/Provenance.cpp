// Linux tells the processor's name in /proc/cpuinfo.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Provenance.h"

#include <fmt/chrono.h>

#include <ctime>
#include <fstream>

namespace yaglom::tools {

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const std::size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "";
}

std::string nowText() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

} // namespace yaglom::tools
