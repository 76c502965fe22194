// Golden cases as tensors of a compiled kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"

namespace yaglom::tests {

/// The attention of a golden case, compiled.
Kernel kernelOf(const Golden &golden, DType dtype, const Target &target = testedTarget());

/// What the golden case gives; draws are made from its noise where it has no draws, and all are in `drawn`.
Data dataOf(const Golden &golden, const Kernel &kernel, Parameters &drawn);

} // namespace yaglom::tests
