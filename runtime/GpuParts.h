// Forward launches on a GPU: parts of a sequence on several blocks when there are fewer items than multiprocessors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Launch.h"

namespace yaglom::runtime {

/// launchForward() on the GPU of `session`.
void launchGpuForward(const compiler::Program &program, const Grid &grid, std::span<const Operand> operands,
                      DType dtype, GpuSession &session);

/// launchKeeping() on the GPU of `session`.
void launchGpuKeeping(const compiler::Program &program, const Grid &grid, std::span<const Operand> operands,
                      DType dtype, GpuSession &session, const KeptStates &kept);

} // namespace yaglom::runtime
