// What gradients of attentions and of losses share: sums over items, and rows that go back to the table they came from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Compiled.h"

namespace yaglom::runtime {

/// Sums `items` [batch, heads, ...] over batch, and over heads when they share the tensor: always in this order, in float64.
Tensor sumItems(const HeadTensor &info, const Tensor &items, int64_t batch, int64_t heads);

/// Sets `name` to `more` plus what there is.
void addTo(Parameters &gradients, const std::string &name, Tensor more);

/// Rows of a table that a draw took by allocation: their gradients `from` [H, rows, width] are added to those of the table.
void scatter(const Compiled &compiled, const HeadTensor &rows, const Tensor &from,
             const compiler::PreparedOperand &prepared, const Parameters &parameters, int64_t heads,
             Parameters &gradients);

} // namespace yaglom::runtime
