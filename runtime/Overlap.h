// Do two strided tensors share memory, and does one meet itself?
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

namespace yaglom::runtime {

/// Number of elements of `tensor` from its first to one past its last; 0 when it is empty; -1 when that leaves the
/// address space. Strides are not negative.
int64_t extent(const TensorRef &tensor);

/// True unless every index of `tensor` is sure to have an address of its own. Exact when the axes nest (each stride is
/// larger than what the smaller ones span); layouts that interleave in other ways count as overlapping.
bool overlapsItself(const TensorRef &tensor);

/// True when an element of `a` and one of `b` share memory. Both have one element type, addresses aligned to it, and an
/// extent that is not -1. Slices that interleave, such as Q and O in one packed buffer, do not overlap. Exact but for
/// layouts so irregular that the search is given up: they count as overlapping.
bool overlap(const TensorRef &a, const TensorRef &b);

} // namespace yaglom::runtime
