// Which PTX a driver and a GPU take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Device.h"

namespace yaglom::cuda {

/// The highest PTX ISA version, 10 * major + minor (84 is 8.4), that a driver of CUDA `driverVersion` (12040 is 12.4)
/// takes. For a driver newer than this library, the highest version that it knows. What the compiler writes to .version
/// must not be higher. Source: PTX ISA, "Release Notes", the table of versions.
int highestPtxVersion(int driverVersion);

/// The first lines of a PTX text.
struct PtxHeader {
  int version = 0;    ///< 10 * major + minor
  std::string target; ///< "sm_90a"
};

/// Reads .version and .target, whatever comments stand before them. Errors: the text does not begin with them.
Result<PtxHeader> readPtxHeader(std::string_view ptx);

/// Checks before loading that a driver of `driverVersion` takes the PTX's .version, and `device` its .target. The
/// driver would answer with errors 222 and 209, which name neither version nor architecture.
Result<void> checkPtx(const PtxHeader &header, int driverVersion, const Device &device);

} // namespace yaglom::cuda
