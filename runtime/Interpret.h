// Kernels of the reference target: the interpreter behind the same calls, in float64, with one conversion each way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Compiled.h"

#include <span>

namespace yaglom::runtime {

/// Parameters at their initial values, rounded to the kernel's type; for every target.
Parameters initialParameters(const Compiled &compiled, int64_t heads, uint64_t seed);

/// The arguments are checked before.
void interpretForward(const Compiled &compiled, std::span<const TensorRef> inputs, const Parameters &parameters,
                      const TensorRef &output);

/// Gradients of every input, parameter and draw as Kernel::backward gives them, by dual numbers: one run of the interpreter
/// for each entry, so for small sizes only. `noise` holds that of every draw. The arguments are checked before.
Parameters interpretBackward(const Compiled &compiled, std::span<const TensorRef> inputs, const Parameters &parameters,
                             const TensorRef &grad, const Parameters &noise, int64_t heads);

/// Sets all draws, made from `noise` (one tensor for each) by the samplers' parameters in `parameters`. Throws Error.
void interpretDraws(const Compiled &compiled, Parameters &parameters, const Parameters &noise, int64_t heads);

/// Values of the loss `name`, from its `noise`. Throws Error.
std::vector<double> interpretLoss(const Compiled &compiled, const std::string &name, const Parameters &parameters,
                                  const Tensor &noise, int64_t heads);

/// Gradients of the sum of the loss over heads, as Kernel::lossGradient gives them, by dual numbers: a run for each entry of
/// one head. Throws Error.
Parameters interpretLossGradient(const Compiled &compiled, const LossInfo &loss, const Parameters &parameters,
                                 const Tensor &noise, int64_t heads);

} // namespace yaglom::runtime
