// The gradient of quadratic attention: weights come back from the stored sums, block by block.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/Softmax.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace yaglom::compiler {

using phi::Scalar;
using tile::Reduction;
using Entries = llvm::ArrayRef<Scalar>;

namespace {

class SoftmaxGradTiler : public SoftmaxTiler {
public:
  using SoftmaxTiler::SoftmaxTiler;
  llvm::SmallVector<Value> queryChunk(Value gradRow);

private:
  llvm::SmallVector<Value> rowsUpTo(Value q, Value grad, Value limit);
};

/// p (x - delta): of weights p, grad . v there, and the delta of each query, which lie on the axis `queries` of p.
Value scoreGradient(OpBuilder &b, Location loc, Value p, Value products, Value delta, unsigned queries) {
  return tile::map(b, loc, tile::shapeOf(p), {{p, {0, 1}}, {products, {0, 1}}, {delta, {queries}}},
                   [](Entries e) { return select(e[0] == e[0].constant(0), e[0], e[0] * (e[1] - e[2])); });
}

llvm::SmallVector<Value> SoftmaxGradTiler::queryChunk(Value gradRow) {
  Value q = scaledQueries(operands, b, queries, queries.spread(operands.q)), grad = queries.spread(gradRow);
  if (!operands.causal)
    return rowsUpTo(q, grad, count);
  Rows own(prologue, b, chunk, queries.first, queries.valid, position);
  Value single = arith::OrIOp::create(b, loc, tile::holdsNonFinite(b, loc, own.spread(operands.v)),
                                      tile::holdsNonFinite(b, loc, own.spread(operands.k)));
  Value ofOne = tile::empty(b, loc, {chunk}, element);
  return overRanges(b, loc, single, queries.valid, {tile::empty(b, loc, tile::shapeOf(q), element), ofOne, ofOne},
                    [&](Value, Value to) { return rowsUpTo(q, grad, minimum(add(queries.first, to), count)); });
}

llvm::SmallVector<Value> SoftmaxGradTiler::rowsUpTo(Value q, Value grad, Value limit) {
  Online rows = online(q, limit);
  Value O = outputs(rows);
  Value lse = tile::map(b, loc, {chunk}, {{rows.m, {0}}, {rows.l, {0}}},
                        [](Entries e) { return select(e[1] == e[1].constant(0), e[1], e[0] + log2(e[1])); });
  Value products =
      tile::map(b, loc, {chunk, width}, {{grad, {0, 1}}, {O, {0, 1}}}, [](Entries e) { return e[0] * e[1]; });
  Value delta = tile::reduce(b, loc, products, 1, Reduction::Sum);
  llvm::SmallVector<int64_t> shape(tile::shapeOf(q));
  auto loop = scf::ForOp::create(b, loc, tile::index(b, loc, 0), limit, tile::index(b, loc, block),
                                 ValueRange{tile::filled(b, loc, shape, element, 0)});
  b.setInsertionPointToStart(loop.getBody());
  Block keys = keysFrom(loop.getInductionVar(), limit);
  Value p = weights(scores(keys, q), lse);
  Value seen = tile::contract(b, loc, {keys.v, {0, 2}}, {grad, {1, 2}}, {0, 1});
  Value u = scoreGradient(b, loc, p, seen, delta, 1);
  // Keys past the end of the rows' range would cross the diagonal as 0 * NaN.
  Value k = selectParts(keys, keys.k, false, 0);
  Value part = tile::contract(b, loc, {u, {2, 0}}, {k, {2, 1}}, {0, 1});
  Value sum = tile::map(b, loc, shape, {{loop.getRegionIterArgs()[0], {0, 1}}, {part, {0, 1}}},
                        [](Entries e) { return e[0] + e[1]; });
  scf::YieldOp::create(b, loc, sum);
  b.setInsertionPointAfter(loop);
  return {loop.getResult(0), lse, delta};
}

} // namespace

llvm::SmallVector<Value> softmaxGradQueryChunk(phi::SoftmaxGradQueryOp op, OpBuilder &body, Rows &queries,
                                               Prologue &prologue, Value count, Value position,
                                               const Schedule &schedule) {
  return SoftmaxGradTiler(SoftmaxOperands::of(op), body, queries, prologue, count, position, schedule)
      .queryChunk(op.getGrad());
}

namespace {

/// One chunk of keys against blocks of queries.
class SoftmaxKeyGradTiler {
public:
  SoftmaxKeyGradTiler(phi::SoftmaxGradKeyOp op, OpBuilder &b, Rows &keys, Prologue &prologue, Value count,
                      Value position, llvm::function_ref<void(Rows &)> lend, const Schedule &schedule)
      : op(op), b(b), loc(op.getLoc()), keys(keys), prologue(prologue), count(count), position(position), lend(lend),
        chunk(schedule.chunk), block(2 * schedule.chunk), k(keys.spread(op.getK())), v(keys.spread(op.getV())),
        mask(op.getMask() ? keys.spread(op.getMask()) : Value()), element(tile::elementOf(v)) {}

  llvm::SmallVector<Value> run();

private:
  llvm::SmallVector<Value> fromQuery(Value least);
  Value weights(Value q, Value lse, Value start, Value valid);

  phi::SoftmaxGradKeyOp op;
  OpBuilder &b;
  Location loc;
  Rows &keys;
  Prologue &prologue;
  Value count, position;
  llvm::function_ref<void(Rows &)> lend;
  int64_t chunk, block;
  Value k, v, mask;
  Type element;
};

/// Weights [query, key], 0 where the query does not see the key.
Value SoftmaxKeyGradTiler::weights(Value q, Value lse, Value start, Value valid) {
  Value s = tile::contract(b, loc, {q, {0, 2}}, {k, {1, 2}}, {0, 1});
  llvm::SmallVector<tile::Operand> parts{{s, {0, 1}}, {lse, {0}}};
  if (mask)
    parts.push_back({mask, {1}});
  return tile::pointwise(b, loc, {block, chunk}, parts, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
    Value i = linalg::IndexOp::create(in, at, 0), j = linalg::IndexOp::create(in, at, 1);
    Value part = arith::AndIOp::create(in, at, arith::CmpIOp::create(in, at, arith::CmpIPredicate::ult, i, valid),
                                       arith::CmpIOp::create(in, at, arith::CmpIPredicate::ult, j, keys.valid));
    if (op.getCausal()) {
      Value query = arith::AddIOp::create(in, at, i, start), key = arith::AddIOp::create(in, at, j, keys.first);
      part = arith::AndIOp::create(in, at, part, arith::CmpIOp::create(in, at, arith::CmpIPredicate::ule, key, query));
    }
    Scalar score(in, at, x[0]), sum(in, at, x[1]);
    if (mask)
      part = arith::AndIOp::create(
          in, at, part,
          arith::CmpFOp::create(in, at, arith::CmpFPredicate::UNE, x[2], tile::number(in, at, x[2].getType(), 0)));
    return select(part, exp2(score - sum), score.constant(0));
  });
}

/// The gradients of all keys of the chunk by the queries from `least` on, or by all of them when it is null.
llvm::SmallVector<Value> SoftmaxKeyGradTiler::fromQuery(Value least) {
  Value size = tile::index(b, loc, block), first = tile::index(b, loc, 0);
  if (least)
    first = arith::MulIOp::create(b, loc, arith::DivUIOp::create(b, loc, least, size), size);
  auto loop = scf::ForOp::create(b, loc, first, count, size,
                                 ValueRange{tile::filled(b, loc, tile::shapeOf(k), element, 0),
                                            tile::filled(b, loc, tile::shapeOf(v), element, 0)});
  b.setInsertionPointToStart(loop.getBody());
  Value start = loop.getInductionVar();
  Value valid = arith::MinUIOp::create(b, loc, arith::SubIOp::create(b, loc, count, start), size);
  Rows queries(prologue, b, block, start, valid, position);
  lend(queries);
  Value plain = queries.spread(op.getQ()), grad = queries.spread(op.getGrad());
  Value lse = queries.spread(op.getLse()), delta = queries.spread(op.getDelta());
  Value q = scaledQueries(SoftmaxOperands::of(op), b, queries, plain);
  Value p = weights(q, lse, start, valid);
  Value products = tile::contract(b, loc, {grad, {0, 2}}, {v, {1, 2}}, {0, 1});
  Value u = scoreGradient(b, loc, p, products, delta, 0);
  // Queries before would cross the diagonal as 0 * NaN.
  auto late = [&](Value rows) {
    return least ? tile::onlyRows(b, loc, rows, arith::CmpIPredicate::sge, arith::SubIOp::create(b, loc, least, start))
                 : rows;
  };
  auto added = [&](Value total, Value weights, Value rows) {
    Value part = tile::contract(b, loc, {weights, {2, 0}}, {rows, {2, 1}}, {0, 1});
    return tile::map(b, loc, tile::shapeOf(total), {{total, {0, 1}}, {part, {0, 1}}},
                     [](Entries e) { return e[0] + e[1]; });
  };
  ValueRange totals = loop.getRegionIterArgs();
  scf::YieldOp::create(b, loc, ValueRange{added(totals[0], u, late(plain)), added(totals[1], p, late(grad))});
  b.setInsertionPointAfter(loop);
  return {loop.getResult(0), loop.getResult(1)};
}

llvm::SmallVector<Value> SoftmaxKeyGradTiler::run() {
  if (!op.getCausal())
    return fromQuery({});
  Rows own(prologue, b, chunk, keys.first, keys.valid, position);
  lend(own);
  Value single = arith::OrIOp::create(b, loc, tile::holdsNonFinite(b, loc, own.spread(op.getQ())),
                                      tile::holdsNonFinite(b, loc, own.spread(op.getGrad())));
  return overRanges(b, loc, single, keys.valid,
                    {tile::empty(b, loc, tile::shapeOf(k), element), tile::empty(b, loc, tile::shapeOf(v), element)},
                    [&](Value from, Value) { return fromQuery(arith::AddIOp::create(b, loc, keys.first, from)); });
}

} // namespace

llvm::SmallVector<Value> softmaxGradKeyChunk(phi::SoftmaxGradKeyOp op, OpBuilder &b, Rows &keys, Prologue &prologue,
                                             Value count, Value position, llvm::function_ref<void(Rows &)> lend,
                                             const Schedule &schedule) {
  return SoftmaxKeyGradTiler(op, b, keys, prologue, count, position, lend, schedule).run();
}

} // namespace yaglom::compiler
