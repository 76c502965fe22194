// Operands of draws whose rows depend on their place among all rows: allocation to components, orthogonal blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "runtime/Compiled.h"

namespace yaglom::runtime {

/// The rows of `info`, by the definitions that the reference uses too: from `noise` [H, rows, entries] of the draw, or
/// from the sampler's parameters.
Tensor prepare(const compiler::PreparedOperand &operand, const HeadTensor &info, const Tensor &noise,
               const Parameters &parameters, int64_t heads);

/// The component that each of `count` rows of head `head` is allocated to, by `alpha`, [H, Q] or [Q].
std::vector<int64_t> allocate(const Tensor &alpha, int64_t head, int64_t count);

} // namespace yaglom::runtime
