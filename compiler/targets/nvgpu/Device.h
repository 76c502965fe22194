// What the GPU target knows of a device: its instruction set, and what one block of threads may take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <cstdint>
#include <string>

namespace yaglom::compiler::nvgpu {

struct Device {
  std::string architecture;        ///< "sm_80"
  int64_t sharedBytes = 0;         ///< of shared memory that one block may ask for
  int64_t threads = 256;           ///< of a block
  static constexpr int kWarp = 32; ///< threads of a warp

  int64_t warps() const { return threads / kWarp; }

  /// One of sm_80, sm_86, sm_89, sm_90, sm_100, sm_120; the Error lists them.
  static Result<Device> named(const std::string &architecture);
};

} // namespace yaglom::compiler::nvgpu
