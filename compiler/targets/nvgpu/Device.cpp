// Limits by compute capability (CUDA C++ Programming Guide, "Compute Capabilities").
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/Device.h"

#include <array>

namespace yaglom::compiler::nvgpu {

namespace {

struct Limits {
  const char *architecture;
  int64_t sharedKilobytes;
};

constexpr std::array kDevices = {
    Limits{"sm_80", 163}, Limits{"sm_86", 99},   Limits{"sm_89", 99},
    Limits{"sm_90", 227}, Limits{"sm_100", 227}, Limits{"sm_120", 99},
};

} // namespace

Result<Device> Device::named(const std::string &architecture) {
  std::string known;
  for (const Limits &limits : kDevices) {
    if (architecture == limits.architecture)
      return Device{architecture, limits.sharedKilobytes * 1024};
    known += (known.empty() ? "" : ", ") + std::string(limits.architecture);
  }
  return Error("unknown GPU architecture '" + architecture + "'; expected one of " + known);
}

} // namespace yaglom::compiler::nvgpu
