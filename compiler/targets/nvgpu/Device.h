// What the GPU target knows of a device: its instruction set, and what one block of threads may take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"
#include "yaglom/schedule.h"

#include <cstdint>
#include <string>

namespace yaglom::compiler::nvgpu {

struct Device {
  std::string architecture;        ///< "sm_80"
  int64_t sharedBytes = 0;         ///< of shared memory that one block may ask for
  int64_t threads = 256;           ///< of a block
  int64_t stages = 2;              ///< buffers of the rows that a loop reads; with 1 no copies run ahead
  static constexpr int kWarp = 32; ///< threads of a warp

  int64_t warps() const { return threads / kWarp; }
  /// Registers of a thread that the states of a kernel may take beside its products' fragments and addresses, so that nothing
  /// spills. A kernel with several states is a gradient, which has more of those.
  int64_t stateRegisters(int64_t states) const { return threads > 256 ? 0 : states == 1 ? 64 : 32; }
  /// The same device, used as `schedule` says.
  Device with(const yaglom::Schedule &schedule) const {
    Device device = *this;
    if (schedule.warps)
      device.threads = kWarp * schedule.warps;
    if (schedule.stages)
      device.stages = schedule.stages;
    return device;
  }

  /// One of sm_80, sm_86, sm_89, sm_90, sm_100, sm_120; the Error lists them.
  static Result<Device> named(const std::string &architecture);
};

} // namespace yaglom::compiler::nvgpu
