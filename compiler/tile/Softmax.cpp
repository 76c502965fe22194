// Online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) in base 2: scores meet the running maximum block by block.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/Softmax.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace yaglom::compiler {

using phi::Scalar;
using tile::Axes;
using tile::Reduction;
using Entries = llvm::ArrayRef<Scalar>;

/// q scale log2(e): scores come out in base 2.
Value scaledQueries(const SoftmaxOperands &operands, OpBuilder &b, Rows &queries, Value q) {
  Location loc = operands.loc;
  int64_t d = tile::shapeOf(q)[1];
  llvm::SmallVector<tile::Operand> factors{{q, {0, 1}}};
  if (operands.scale)
    factors.push_back(queries.operand(operands.scale, 2));
  if (operands.scale && queries.perToken(operands.scale))
    factors.back().axes = {0};
  return tile::map(b, loc, tile::shapeOf(q), factors, [&](Entries e) {
    if (operands.scale)
      return e[0] * (e[1] * e[0].constant(std::numbers::log2e));
    return e[0] * e[0].constant(std::numbers::log2e / std::sqrt(double(d)));
  });
}

/// Keys `start` .. of one block, none at or after `limit`: whether key j, on axis 0, takes part; of query i, on axis 1.
SoftmaxTiler::Block SoftmaxTiler::keysFrom(Value start, Value limit) {
  Value left = arith::SubIOp::create(b, loc, count, start);
  Rows keys(prologue, b, block, start, minimum(left, tile::index(b, loc, block)), position);
  Block made{keys.spread(operands.k), keys.spread(operands.v), operands.mask ? keys.spread(operands.mask) : Value(),
             start, limit};
  made.v = selectParts(made, made.v, false, 0);
  return made;
}

/// x [block, ...] where keys take part, else `other`.
Value SoftmaxTiler::selectParts(const Block &keys, Value x, bool withQuery, double other) {
  llvm::SmallVector<tile::Operand> all{{x, {0, 1}}};
  if (keys.mask)
    all.push_back({keys.mask, {0}});
  return tile::pointwise(b, loc, tile::shapeOf(x), all, [&](OpBuilder &in, Location at, ValueRange e) -> Value {
    Value j = arith::AddIOp::create(in, at, linalg::IndexOp::create(in, at, 0), keys.start);
    Value part = arith::CmpIOp::create(in, at, arith::CmpIPredicate::ult, j, keys.limit);
    if (operands.causal && withQuery) {
      Value i = arith::AddIOp::create(in, at, linalg::IndexOp::create(in, at, 1), queries.first);
      part = arith::AndIOp::create(in, at, part, arith::CmpIOp::create(in, at, arith::CmpIPredicate::ule, j, i));
    }
    if (keys.mask) {
      Value zero = tile::number(in, at, e[1].getType(), 0);
      part = arith::AndIOp::create(in, at, part, arith::CmpFOp::create(in, at, arith::CmpFPredicate::UNE, e[1], zero));
    }
    Scalar value(in, at, e[0]);
    return select(part, value, value.constant(other));
  });
}

/// Scores in log2, [key, query].
Value SoftmaxTiler::scores(const Block &keys, Value q) {
  return selectParts(keys, tile::contract(b, loc, {keys.k, {0, 2}}, {q, {1, 2}}, {0, 1}), true, kNoScore);
}

/// 2^(score - from), 0 where there is no score.
Value SoftmaxTiler::weights(Value scores, Value from) {
  return tile::map(b, loc, tile::shapeOf(scores), {{scores, {0, 1}}, {from, {1}}}, [](Entries e) {
    return select(e[0] == e[0].constant(kNoScore), e[0].constant(0), exp2(e[0] - e[1]));
  });
}

Online SoftmaxTiler::keyBlock(const Online &before, Value q, Value start, Value limit) {
  Block keys = keysFrom(start, limit);
  Value s = scores(keys, q);
  Value most = tile::reduce(b, loc, s, 0, Reduction::Max);
  Online next;
  next.m = tile::map(b, loc, {chunk}, {{before.m, {0}}, {most, {0}}}, [](Entries e) { return maxNumber(e[0], e[1]); });
  Value shrink =
      tile::map(b, loc, {chunk}, {{before.m, {0}}, {next.m, {0}}}, [](Entries e) { return exp2(e[0] - e[1]); });
  Value p = weights(s, next.m);
  next.l =
      tile::map(b, loc, {chunk}, {{before.l, {0}}, {shrink, {0}}, {tile::reduce(b, loc, p, 0, Reduction::Sum), {0}}},
                [](Entries e) { return e[0] * e[1] + e[2]; });
  Value O = tile::contract(b, loc, {p, {2, 0}}, {keys.v, {2, 1}}, {0, 1});
  next.O = tile::map(b, loc, {chunk, width}, {{before.O, {0, 1}}, {shrink, {0}}, {O, {0, 1}}},
                     [](Entries e) { return e[0] * e[1] + e[2]; });
  return next;
}

/// All queries of the chunk against the keys before `limit`.
Online SoftmaxTiler::online(Value q, Value limit) {
  llvm::SmallVector<Value> inits{tile::filled(b, loc, {chunk}, element, kNoScore),
                                 tile::filled(b, loc, {chunk}, element, 0),
                                 tile::filled(b, loc, {chunk, width}, element, 0)};
  auto loop = scf::ForOp::create(b, loc, tile::index(b, loc, 0), limit, tile::index(b, loc, block), inits);
  b.setInsertionPointToStart(loop.getBody());
  ValueRange args = loop.getRegionIterArgs();
  Online next = keyBlock({args[0], args[1], args[2]}, q, loop.getInductionVar(), limit);
  scf::YieldOp::create(b, loc, ValueRange{next.m, next.l, next.O});
  b.setInsertionPointAfter(loop);
  return {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
}

/// A row without a key is 0.
Value SoftmaxTiler::outputs(const Online &rows) {
  return tile::map(b, loc, {chunk, width}, {{rows.O, {0, 1}}, {rows.l, {0}}},
                   [](Entries e) { return select(e[1] == e[1].constant(0), e[1], e[0] / e[1]); });
}

llvm::SmallVector<Value> overRanges(OpBuilder &b, Location loc, Value single, Value valid, llvm::ArrayRef<Value> empty,
                                    llvm::function_ref<llvm::SmallVector<Value>(Value, Value)> compute) {
  llvm::SmallVector<Value> inits{tile::index(b, loc, 0)};
  llvm::append_range(inits, empty);
  auto loop = scf::WhileOp::create(
      b, loc, ValueRange(inits).getTypes(), inits,
      [&](OpBuilder &at, Location l, ValueRange args) {
        Value more = arith::CmpIOp::create(at, l, arith::CmpIPredicate::ult, args[0], valid);
        scf::ConditionOp::create(at, l, more, args);
      },
      [](OpBuilder &, Location, ValueRange) {});
  b.setInsertionPointToStart(loop.getAfterBody());
  Value from = loop.getAfterArguments()[0];
  Value next = arith::AddIOp::create(b, loc, from, tile::index(b, loc, 1));
  Value to = arith::SelectOp::create(b, loc, single, next, valid);
  llvm::SmallVector<Value> yields{to};
  for (auto [now, old] : llvm::zip(compute(from, to), loop.getAfterArguments().drop_front()))
    yields.push_back(tile::insertRows(b, loc, now, old, old, 0, arith::CmpIPredicate::uge, from));
  scf::YieldOp::create(b, loc, yields);
  b.setInsertionPointAfter(loop);
  return llvm::SmallVector<Value>(loop.getResults().drop_front());
}

Value SoftmaxTiler::run() {
  Value q = scaledQueries(operands, b, queries, queries.spread(operands.q));
  if (!operands.causal)
    return outputs(online(q, count));
  Rows own(prologue, b, chunk, queries.first, queries.valid, position);
  return overRanges(b, loc, tile::holdsNonFinite(b, loc, own.spread(operands.v)), queries.valid,
                    {tile::empty(b, loc, {chunk, width}, element)}, [&](Value, Value to) {
                      return llvm::SmallVector<Value>{outputs(online(q, minimum(add(queries.first, to), count)))};
                    })[0];
}

Value softmaxChunk(phi::SoftmaxAttentionOp op, OpBuilder &body, Rows &queries, Prologue &prologue, Value count,
                   Value position, const Schedule &schedule) {
  return SoftmaxTiler(SoftmaxOperands::of(op), body, queries, prologue, count, position, schedule).run();
}

} // namespace yaglom::compiler
