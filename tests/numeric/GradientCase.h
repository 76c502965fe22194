// Gradients of a kernel, and the reference's word on them along a direction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/numeric/CpuCase.h"

namespace yaglom::tests {

std::vector<double> valuesOf(const Tensor &tensor);

/// Numbers of `dtype`, as the gradient of a kernel's output.
Tensor randomGrad(const Kernel &kernel, const Sizes &sizes, DType dtype);

/// Kernel::backward on the kernel's type. With `interval` chunks, from the residual of a forward launch.
Gradients backward(const Kernel &kernel, const Data &data, const Tensor &grad, int threads = 1, int64_t interval = 0);

/// What gradient `name` ("grad.W") of a 16-bit kernel may differ by; rounding the tensors alone changes it by `changeByRounding`.
double halfGradientBound(const Data &data, const std::string &name, DType dtype, double changeByRounding);

/// Compares each of `found` with the reference's derivative along a random direction of its tensor, in the measure of
/// language.md section 6 (the error by the gradient's length). The draws of `data` must be those of seed 0.
void checkDirections(const Spec &spec, const std::string &attention, const CompileOptions &options, const Data &data,
                     const Tensor &grad, const Gradients &found, double bound);

} // namespace yaglom::tests
