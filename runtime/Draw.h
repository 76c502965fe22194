// What draws start from: noise, and rows that depend on their place among all rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Compiled.h"

namespace yaglom::runtime {

/// The noise `name` that the caller supplies among `parameters`, checked, or that of `seed`. Throws Error.
Tensor findNoise(const Compiled &compiled, const std::string &name, const Parameters &parameters, int64_t heads,
                 uint64_t seed);

/// The prepared operand `operand` of a draw, from its noise and the samplers' parameters, which are checked. Throws Error.
Tensor prepareRows(const Compiled &compiled, const std::string &operand, const compiler::PreparedOperand &prepared,
                   const Parameters &parameters, const Tensor &noise, int64_t heads);

/// The number of heads, by the first tensor of `parameters` that has one for each; 1 when all tensors are shared. Throws
/// Error when none tells.
int64_t countHeads(const Compiled &compiled, const Parameters &parameters);

/// The place of loss `name` in Instance::losses. Throws an Error that lists those there are.
std::size_t findLoss(const Instance &instance, const std::string &name);

} // namespace yaglom::runtime
