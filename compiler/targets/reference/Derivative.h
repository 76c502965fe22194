// Derivatives of an attention, or of a loss, along a direction, by one run of the interpreter over dual numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Reference.h"

namespace yaglom::reference {

/// The derivative of sum(O * grad) along `direction` of the tensor `name`, which has that shape. `tensors` holds inputs,
/// parameters, and each draw beside its noise: a parameter of a sampler acts through what would be drawn from the noise,
/// for everything else the draws are what they are. `grad` [B, H, N, width]. Throws as forward() does.
double directionalDerivative(const Instance &instance, const Tensors<double> &tensors, const Array<double> &grad,
                             int64_t heads, const std::string &name, const Array<double> &direction);

/// The same of the sum over heads of the loss `name`, whose noise is among `tensors`, along `direction` of `parameter`.
double directionalLossDerivative(const Instance &instance, const Tensors<double> &tensors, int64_t heads,
                                 const std::string &name, const std::string &parameter, const Array<double> &direction);

} // namespace yaglom::reference
