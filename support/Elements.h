// One element in memory, of any type, as a double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

namespace yaglom {

/// The element at `address`, which need not be aligned.
double loadElement(DType type, const void *address);
/// Rounds to nearest, ties to even, once; what is too large becomes infinite.
void storeElement(DType type, void *address, double value);

} // namespace yaglom
