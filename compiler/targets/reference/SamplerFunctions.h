// The two functions of sampler formulas that look beyond their own row: allocation and orthogonalisation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Value.h"

#include <vector>

namespace yaglom::reference {

/// The component of each of `rows` rows by the weights exp(alpha), as language.md defines the allocation.
template <typename S>
std::vector<int64_t> allocate(const Value<S> &alpha, int64_t rows);

/// Row i of the result is the row of `table` [Q, ...] that belongs to the component of row i.
template <typename S>
Value<S> component(const Value<S> &table, const Value<S> &alpha, int64_t rows);

/// Gram-Schmidt on each block of D rows of `z` [D]: orthonormal rows; the last block may be partial.
template <typename S>
Value<S> orthogonalize(const Value<S> &z);

} // namespace yaglom::reference
