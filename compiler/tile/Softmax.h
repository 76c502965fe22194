// The tiles of quadratic attention: blocks of keys with an online maximum, never an N x N array.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Rows.h"
#include "compiler/tile/Schedule.h"

namespace yaglom::compiler {

/// The rows of a softmax_attention and how they are combined, whichever op it is.
struct SoftmaxOperands {
  mlir::Value q, k, v, scale, mask; ///< the last two or null
  bool causal;
  mlir::Location loc;

  template <typename Op>
  static SoftmaxOperands of(Op op) {
    return {op.getQ(), op.getK(), op.getV(), op.getScale(), op.getMask(), op.getCausal(), op.getLoc()};
  }
};

/// Maximum, sum and output of each query so far.
struct Online {
  mlir::Value m, l, O;
};

/// q times the scale and log2(e): scores come out in base 2.
mlir::Value scaledQueries(const SoftmaxOperands &operands, mlir::OpBuilder &b, Rows &queries, mlir::Value q);

/// What `compute` gives for rows from .. to - 1 of the first `valid` ones: all at a time, or one by one when `single` holds.
/// The results are tiles like those of `empty`; what `compute` gives for other rows is dropped.
llvm::SmallVector<mlir::Value>
overRanges(mlir::OpBuilder &b, mlir::Location loc, mlir::Value single, mlir::Value valid,
           llvm::ArrayRef<mlir::Value> empty,
           llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::Value)> compute);

class SoftmaxTiler {
public:
  SoftmaxTiler(const SoftmaxOperands &operands, mlir::OpBuilder &b, Rows &queries, Prologue &prologue,
               mlir::Value count, mlir::Value position, const Schedule &schedule)
      : operands(operands), b(b), loc(operands.loc), queries(queries), prologue(prologue), count(count),
        position(position), element(tile::elementOf(operands.v)), chunk(schedule.chunk), block(2 * schedule.chunk),
        width(tile::shapeOf(operands.v)[0]) {}

  mlir::Value run();

protected:
  struct Block {
    mlir::Value k, v, mask, start, limit; ///< v is 0 where keys take no part
  };
  Block keysFrom(mlir::Value start, mlir::Value limit);
  mlir::Value selectParts(const Block &keys, mlir::Value x, bool withQuery, double other);
  mlir::Value scores(const Block &keys, mlir::Value q);
  mlir::Value weights(mlir::Value scores, mlir::Value from);
  Online keyBlock(const Online &before, mlir::Value q, mlir::Value start, mlir::Value limit);
  Online online(mlir::Value q, mlir::Value limit);
  mlir::Value outputs(const Online &rows);
  mlir::Value minimum(mlir::Value x, mlir::Value y) { return mlir::arith::MinUIOp::create(b, loc, x, y); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddIOp::create(b, loc, x, y); }

  /// The score of a key that takes no part: below any other, and no infinity, whose differences are NaN.
  static constexpr double kNoScore = -0x1p126;

  SoftmaxOperands operands;
  mlir::OpBuilder &b;
  mlir::Location loc;
  Rows &queries;
  Prologue &prologue;
  mlir::Value count, position;
  mlir::Type element;
  int64_t chunk, block, width;
};

/// One chunk of queries of a phi.softmax_attention against all `count` keys (or those up to each query, when causal).
/// `position` is the `pos` of the first key.
mlir::Value softmaxChunk(phi::SoftmaxAttentionOp op, mlir::OpBuilder &body, Rows &queries, Prologue &prologue,
                         mlir::Value count, mlir::Value position, const Schedule &schedule);

/// One chunk of phi.softmax_grad_query: y, lse and delta.
llvm::SmallVector<mlir::Value> softmaxGradQueryChunk(phi::SoftmaxGradQueryOp op, mlir::OpBuilder &body, Rows &queries,
                                                     Prologue &prologue, mlir::Value count, mlir::Value position,
                                                     const Schedule &schedule);

/// One chunk of keys of phi.softmax_grad_key against all `count` queries (or those from each key on): y and dv. `lend` states
/// the tiles of rows between the loops.
llvm::SmallVector<mlir::Value> softmaxGradKeyChunk(phi::SoftmaxGradKeyOp op, mlir::OpBuilder &body, Rows &keys,
                                                   Prologue &prologue, mlir::Value count, mlir::Value position,
                                                   llvm::function_ref<void(Rows &)> lend, const Schedule &schedule);

} // namespace yaglom::compiler
