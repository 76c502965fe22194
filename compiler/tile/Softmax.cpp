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
using tile::Reduction;
using Entries = llvm::ArrayRef<Scalar>;

namespace {

/// The score of a key that takes no part: below any other, and no infinity, whose differences are NaN.
constexpr double kNoScore = -0x1p126;

/// Maximum, sum and output of each query so far.
struct Online {
  Value m, l, O;
};

class SoftmaxTiler {
public:
  SoftmaxTiler(phi::SoftmaxAttentionOp op, OpBuilder &b, Rows &queries, Prologue &prologue, Value count, Value position,
               const Schedule &schedule)
      : op(op), b(b), loc(op.getLoc()), queries(queries), prologue(prologue), count(count), position(position),
        element(tile::elementOf(op.getResult())), chunk(schedule.chunk), block(2 * schedule.chunk) {}

  Value run();

private:
  Value scaledQueries();
  Online keyBlock(const Online &before, Value q, Value start, Value limit);
  Value rowsUpTo(Value q, Value limit);
  Value minimum(Value x, Value y) { return arith::MinUIOp::create(b, loc, x, y); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }

  phi::SoftmaxAttentionOp op;
  OpBuilder &b;
  Location loc;
  Rows &queries;
  Prologue &prologue;
  Value count, position;
  Type element;
  int64_t chunk, block, width = 0;
};

/// q scale log2(e): scores come out in base 2.
Value SoftmaxTiler::scaledQueries() {
  Value q = queries.spread(op.getQ());
  int64_t d = tile::shapeOf(q)[1];
  llvm::SmallVector<tile::Operand> operands{{q, {0, 1}}};
  if (op.getScale())
    operands.push_back(queries.operand(op.getScale(), 2));
  if (op.getScale() && queries.perToken(op.getScale()))
    operands.back().axes = {0};
  return tile::map(b, loc, {chunk, d}, operands, [&](Entries e) {
    if (op.getScale())
      return e[0] * (e[1] * e[0].constant(std::numbers::log2e));
    return e[0] * e[0].constant(std::numbers::log2e / std::sqrt(double(d)));
  });
}

/// Keys `start` .. of one block, none at or after `limit`.
Online SoftmaxTiler::keyBlock(const Online &before, Value q, Value start, Value limit) {
  Value left = arith::SubIOp::create(b, loc, count, start);
  Rows keys(prologue, b, block, start, minimum(left, tile::index(b, loc, block)), position);
  Value k = keys.spread(op.getK()), v = keys.spread(op.getV());
  Value mask = op.getMask() ? keys.spread(op.getMask()) : Value();
  auto takesPart = [&](OpBuilder &in, Location at, Value maskEntry, bool withQuery) -> Value {
    Value j = arith::AddIOp::create(in, at, linalg::IndexOp::create(in, at, 0), start);
    Value part = arith::CmpIOp::create(in, at, arith::CmpIPredicate::ult, j, limit);
    if (op.getCausal() && withQuery) {
      Value i = arith::AddIOp::create(in, at, linalg::IndexOp::create(in, at, 1), queries.first);
      part = arith::AndIOp::create(in, at, part, arith::CmpIOp::create(in, at, arith::CmpIPredicate::ule, j, i));
    }
    if (!maskEntry)
      return part;
    Value zero = tile::number(in, at, maskEntry.getType(), 0);
    return arith::AndIOp::create(in, at, part,
                                 arith::CmpFOp::create(in, at, arith::CmpFPredicate::UNE, maskEntry, zero));
  };
  auto operands = [&](std::initializer_list<tile::Operand> own) {
    llvm::SmallVector<tile::Operand> all(own);
    if (mask)
      all.push_back({mask, {0}});
    return all;
  };
  v = tile::pointwise(b, loc, {block, width}, operands({{v, {0, 1}}}),
                      [&](OpBuilder &in, Location at, ValueRange x) -> Value {
                        Scalar value(in, at, x[0]);
                        return select(takesPart(in, at, mask ? x.back() : Value(), false), value, value.constant(0));
                      });
  Value scores = tile::contract(b, loc, {k, {0, 2}}, {q, {1, 2}}, {0, 1}); // [key, query]
  scores = tile::pointwise(b, loc, {block, chunk}, operands({{scores, {0, 1}}}),
                           [&](OpBuilder &in, Location at, ValueRange x) -> Value {
                             Scalar s(in, at, x[0]);
                             return select(takesPart(in, at, mask ? x.back() : Value(), true), s, s.constant(kNoScore));
                           });
  Value most = tile::reduce(b, loc, scores, 0, Reduction::Max);
  Online next;
  next.m = tile::map(b, loc, {chunk}, {{before.m, {0}}, {most, {0}}}, [](Entries e) { return maxNumber(e[0], e[1]); });
  Value shrink =
      tile::map(b, loc, {chunk}, {{before.m, {0}}, {next.m, {0}}}, [](Entries e) { return exp2(e[0] - e[1]); });
  Value p = tile::map(b, loc, {block, chunk}, {{scores, {0, 1}}, {next.m, {1}}}, [](Entries e) {
    return select(e[0] == e[0].constant(kNoScore), e[0].constant(0), exp2(e[0] - e[1]));
  });
  next.l =
      tile::map(b, loc, {chunk}, {{before.l, {0}}, {shrink, {0}}, {tile::reduce(b, loc, p, 0, Reduction::Sum), {0}}},
                [](Entries e) { return e[0] * e[1] + e[2]; });
  Value O = tile::contract(b, loc, {p, {2, 0}}, {v, {2, 1}}, {0, 1});
  next.O = tile::map(b, loc, {chunk, width}, {{before.O, {0, 1}}, {shrink, {0}}, {O, {0, 1}}},
                     [](Entries e) { return e[0] * e[1] + e[2]; });
  return next;
}

/// All queries of the chunk against the keys before `limit`.
Value SoftmaxTiler::rowsUpTo(Value q, Value limit) {
  llvm::SmallVector<Value> inits{tile::filled(b, loc, {chunk}, element, kNoScore),
                                 tile::filled(b, loc, {chunk}, element, 0),
                                 tile::filled(b, loc, {chunk, width}, element, 0)};
  auto loop = scf::ForOp::create(b, loc, tile::index(b, loc, 0), limit, tile::index(b, loc, block), inits);
  b.setInsertionPointToStart(loop.getBody());
  ValueRange args = loop.getRegionIterArgs();
  Online next = keyBlock({args[0], args[1], args[2]}, q, loop.getInductionVar(), limit);
  scf::YieldOp::create(b, loc, ValueRange{next.m, next.l, next.O});
  b.setInsertionPointAfter(loop);
  // A row without a key is 0.
  return tile::map(b, loc, {chunk, width}, {{loop.getResult(2), {0, 1}}, {loop.getResult(1), {0}}},
                   [](Entries e) { return select(e[1] == e[1].constant(0), e[1], e[0] / e[1]); });
}

Value SoftmaxTiler::run() {
  Value q = scaledQueries();
  width = cast<RankedTensorType>(op.getV().getType()).getShape()[0];
  if (!op.getCausal())
    return rowsUpTo(q, count);

  // A value of the diagonal block that is not finite must not reach earlier rows as 0 * NaN: then rows go one by one.
  Rows own(prologue, b, chunk, queries.first, queries.valid, position);
  Value v = own.spread(op.getV());
  Value zeros = tile::map(b, loc, {chunk, width}, {{v, {0, 1}}}, [](Entries e) { return e[0] * e[0].constant(0); });
  Value sums = tile::reduce(b, loc, zeros, 0, Reduction::Sum);
  Value sum = tile::scalar(b, loc, tile::reduce(b, loc, sums, 0, Reduction::Sum));
  Value single = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, sum, tile::number(b, loc, element, 0));

  llvm::SmallVector<Value> inits{tile::index(b, loc, 0), tile::empty(b, loc, {chunk, width}, element)};
  auto loop = scf::WhileOp::create(
      b, loc, ValueRange(inits).getTypes(), inits,
      [&](OpBuilder &at, Location l, ValueRange args) {
        Value more = arith::CmpIOp::create(at, l, arith::CmpIPredicate::ult, args[0], queries.valid);
        scf::ConditionOp::create(at, l, more, args);
      },
      [](OpBuilder &, Location, ValueRange) {});
  b.setInsertionPointToStart(loop.getAfterBody());
  Value from = loop.getAfterArguments()[0], old = loop.getAfterArguments()[1];
  Value to = arith::SelectOp::create(b, loc, single, add(from, tile::index(b, loc, 1)), queries.valid);
  Value rows = rowsUpTo(q, minimum(add(queries.first, to), count));
  rows = tile::pointwise(
      b, loc, {chunk, width}, {{rows, {0, 1}}, {old, {0, 1}}}, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
        Value now = arith::CmpIOp::create(in, at, arith::CmpIPredicate::uge, linalg::IndexOp::create(in, at, 0), from);
        return arith::SelectOp::create(in, at, now, x[0], x[1]);
      });
  scf::YieldOp::create(b, loc, ValueRange{to, rows});
  b.setInsertionPointAfter(loop);
  return loop.getResult(1);
}

} // namespace

Value softmaxChunk(phi::SoftmaxAttentionOp op, OpBuilder &body, Rows &queries, Prologue &prologue, Value count,
                   Value position, const Schedule &schedule) {
  return SoftmaxTiler(op, body, queries, prologue, count, position, schedule).run();
}

} // namespace yaglom::compiler
