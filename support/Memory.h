// How much memory this process holds, as the system counts it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace yaglom {

/// Bytes resident now; 0 where the system does not tell.
int64_t residentBytes();

/// The most bytes resident since the last resetPeak(), or since the start where that is not possible.
int64_t peakBytes();
void resetPeak();

} // namespace yaglom
