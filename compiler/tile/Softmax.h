// The tiles of quadratic attention: blocks of keys with an online maximum, never an N x N array.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Rows.h"
#include "compiler/tile/Schedule.h"

namespace yaglom::compiler {

/// One chunk of queries of a phi.softmax_attention against all `count` keys (or those up to each query, when causal).
/// `position` is the `pos` of the first key.
mlir::Value softmaxChunk(phi::SoftmaxAttentionOp op, mlir::OpBuilder &body, Rows &queries, Prologue &prologue,
                         mlir::Value count, mlir::Value position, const Schedule &schedule);

} // namespace yaglom::compiler
