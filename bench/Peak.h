// The machine's rate of multiply-adds, which a kernel's speed is measured against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

namespace yaglom::bench {

/// GFLOP/s (two for each multiply-add) of a loop of multiply-adds that stays in registers, of the widest vectors this
/// processor has, on `threads` threads at a time. Takes about `milliseconds`. Clocks and neighbours change: measure just
/// before and after what is compared with it.
double measurePeakGflops(int threads, DType dtype, double milliseconds = 5);

} // namespace yaglom::bench
