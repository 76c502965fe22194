// The gradient of linear attention: a forward scan gives the queries' part, a reversed one the keys'.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/ScanGrad.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numbers>

using namespace mlir;

namespace yaglom::compiler {

using phi::Scalar;
using tile::Axes;
using tile::Operand;
using tile::Reduction;
using Entries = llvm::ArrayRef<Scalar>;

namespace {

/// x + y z, row by row: y [rows], z [columns].
Value addOuter(OpBuilder &b, Location loc, Value x, Value y, Value z) {
  if (!y || !z)
    return x;
  return tile::map(b, loc, tile::shapeOf(x), {{x, {0, 1}}, {y, {0}}, {z, {1}}},
                   [](Entries e) { return e[0] + e[1] * e[2]; });
}

/// What a block of rows reads from the state: the gradients of its features but for those it met in its own chunk.
Value fromState(OpBuilder &b, Location loc, Value rows, Value row0, const ScanState &state) {
  return addOuter(b, loc, tile::contract(b, loc, {rows, {0, 2}}, {state.S, {1, 2}}, {0, 1}), row0, state.z);
}

/// The gradients of a block's features: of each row's product with the values, P, summed over the features that it met, and
/// what it read from the state.
Value featureGradient(OpBuilder &b, Location loc, Value P, Value met, Value y) {
  return tile::contract(b, loc, {P, {2, 0}}, {met, {2, 1}}, {0, 1}, y);
}

/// The sum, for each row of a block, of its weights times their gradients: A and P [met, rows] but for the pairs that are no
/// pair of two tokens, and the features times what they read from the state.
Value weighed(OpBuilder &b, Location loc, Value A, Value P, int64_t diagonal, Value features, Value y) {
  int64_t met = tile::shapeOf(A)[0], count = tile::shapeOf(A)[1];
  Value pairs = tile::pointwise(
      b, loc, {met, count}, {{A, {0, 1}}, {P, {0, 1}}}, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
        Value i = linalg::IndexOp::create(in, at, 0), j = linalg::IndexOp::create(in, at, 1);
        Value own = arith::AddIOp::create(in, at, j, tile::index(in, at, diagonal));
        Scalar product = Scalar(in, at, x[0]) * Scalar(in, at, x[1]);
        return select(arith::CmpIOp::create(in, at, arith::CmpIPredicate::ne, i, own), product, product.constant(0));
      });
  Value past =
      tile::map(b, loc, tile::shapeOf(y), {{features, {0, 1}}, {y, {0, 1}}}, [](Entries e) { return e[0] * e[1]; });
  return tile::map(
      b, loc, {count},
      {{tile::reduce(b, loc, pairs, 0, Reduction::Sum), {0}}, {tile::reduce(b, loc, past, 1, Reduction::Sum), {0}}},
      [](Entries e) { return e[0] + e[1]; });
}

} // namespace

// A query's w may be as large as its features are small within a range, and stands beside an exponent that does not know of
// it: the ranges of both halves together must fit the type.
QueryGradTiler::QueryGradTiler(const ScanOperands &scan, OpBuilder &body, Rows &keys, const Schedule &schedule)
    : ScanTiler(scan, body, keys, schedule) {
  mostRise /= 2;
}

QueryGradient QueryGradTiler::causalChunk(ScanState &state, Rows &queries, Value grad) {
  QueryScale query(scan, b, queries);
  Value nonFinite = holdsNonFiniteRows();
  Value one = tile::empty(b, loc, {chunk}, element);
  QueryGradient empty{tile::empty(b, loc, {chunk, features}, element),
                      one,
                      one,
                      tile::empty(b, loc, {chunk, width}, element),
                      one,
                      one,
                      one};
  auto [results, fk] = overRanges(state, nonFinite, empty.values(),
                                  [&](const ScanState &inside, Value scaled, const Range &range, ValueRange old) {
                                    query.scale(inside.a, whole, fraction);
                                    return rows(inside, scaled, range, query, grad, QueryGradient::from(old)).values();
                                  });
  advance(state, fk);
  return QueryGradient::from(results);
}

QueryGradient QueryGradTiler::rows(const ScanState &state, Value fk, const Range &range, QueryScale &query, Value grad,
                                   QueryGradient old) {
  int64_t granule = std::min(schedule.granule, chunk);
  Value values = tile::onlyRows(b, loc, v, arith::CmpIPredicate::ult, range.to), sums;
  fk = tile::onlyRows(b, loc, fk, arith::CmpIPredicate::ult, range.to);
  if (state.z)
    sums = tile::contract(b, loc, {query.features(), {0, 1}}, {state.z, {1}}, {0});
  QueryGradient result = old;
  // Rows before the range keep what an earlier range gave them.
  auto put = [&](Value &whole, Value before, Value now, int64_t row) {
    whole = tile::insertRows(b, loc, now, before, whole, row, arith::CmpIPredicate::uge, range.from);
  };
  for (int64_t row = 0; row < chunk; row += granule) {
    int64_t count = std::min(granule, chunk - row), reach = row + count;
    Value fq = tile::slice(b, loc, query.features(), {row, 0}, {count, features});
    Value early = tile::slice(b, loc, values, {0, 0}, {reach, width});
    Value near = tile::slice(b, loc, fk, {0, 0}, {reach, features});
    auto upToDiagonal = [&](Value A, Value extra) {
      llvm::SmallVector<Operand> operands{{A, {0, 1}}};
      if (extra)
        operands.push_back({extra, {1}});
      return tile::pointwise(b, loc, {reach, count}, operands, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
        Value j = linalg::IndexOp::create(in, at, 0);
        Value i = arith::AddIOp::create(in, at, linalg::IndexOp::create(in, at, 1), tile::index(in, at, row));
        Scalar a(in, at, x[0]);
        if (extra)
          a = a + Scalar(in, at, x[1]);
        return select(arith::CmpIOp::create(in, at, arith::CmpIPredicate::ule, j, i), a, a.constant(0));
      });
    };
    Value A = upToDiagonal(tile::contract(b, loc, {near, {0, 2}}, {fq, {1, 2}}, {0, 1}), {});
    Value N = tile::contract(b, loc, {A, {2, 0}}, {early, {2, 1}}, {0, 1});
    N = tile::contract(b, loc, {fq, {0, 2}}, {state.S, {2, 1}}, {0, 1}, N);
    Value D;
    if (state.z)
      D = tile::map(
          b, loc, {count},
          {{tile::reduce(b, loc, A, 0, Reduction::Sum), {0}}, {tile::slice(b, loc, sums, {row}, {count}), {0}}},
          [](Entries e) { return e[0] + e[1]; });
    QueryScale::Gradients g = query.pullBack(tile::slice(b, loc, grad, {row, 0}, {count, width}), N, D, row);
    if (!g.w0)
      g.w0 = tile::filled(b, loc, {count}, element, 0);
    Value P = upToDiagonal(tile::contract(b, loc, {early, {0, 2}}, {g.w, {1, 2}}, {0, 1}), state.z ? g.w0 : Value());
    Value past = fromState(b, loc, g.w, g.w0, state), y = featureGradient(b, loc, P, near, past);
    Value r = scan.log2Decay ? query.pullBackSum(weighed(b, loc, A, P, row, fq, past), row)
                             : tile::filled(b, loc, {count}, element, 0);
    put(result.r, old.r, r, row);
    put(result.dq, old.dq, query.pullBackFeatures(y, row), row);
    put(result.dscale, old.dscale, g.dscale, row);
    put(result.t, old.t, g.t, row);
    put(result.w, old.w, g.w, row);
    put(result.w0, old.w0, g.w0, row);
    put(result.b, old.b, tile::slice(b, loc, query.baseOfRows(), {row}, {count}), row);
  }
  return result;
}

QueryGradient QueryGradTiler::wholeChunk(const ScanOperands &scan, OpBuilder &body, const ScanState &state,
                                         Rows &queries, Value grad) {
  Location loc = scan.loc;
  QueryScale query(scan, body, queries);
  query.scale(state.a, {}, {});
  Value N = tile::contract(body, loc, {query.features(), {0, 2}}, {state.S, {2, 1}}, {0, 1}), D;
  if (state.z)
    D = tile::contract(body, loc, {query.features(), {0, 1}}, {state.z, {1}}, {0});
  QueryScale::Gradients g = query.pullBack(grad, N, D, 0);
  if (!g.w0)
    g.w0 = tile::filled(body, loc, {queries.chunk}, scan.element(), 0);
  Value y = fromState(body, loc, g.w, g.w0, state), none = tile::filled(body, loc, {queries.chunk}, scan.element(), 0);
  return {query.pullBackFeatures(y, 0), g.dscale, g.t, g.w, g.w0, query.baseOfRows(), none};
}

KeyGradTiler::KeyGradTiler(phi::ScanGradKeyOp op, OpBuilder &body, Rows &queries, const Schedule &schedule)
    : ScanTiler(ScanOperands::reversed(op), body, queries, schedule) {
  isReversed = true;
  mostRise /= 2; // as in QueryGradTiler
  if (scan.normalizes())
    w0 = queries.spread(op.getW0());
  if (scan.state.size() <= (scan.normalizes() ? 2u : 1u))
    return;
  Value base = queries.spread(op.getB());
  if (exponent)
    exponent = tile::map(b, loc, tile::shapeOf(exponent), {{exponent, byFeature ? Axes{0, 1} : Axes{0}}, {base, {0}}},
                         [](Entries e) { return e[0] - e[1]; });
  else
    exponent = tile::map(b, loc, {chunk}, {{base, {0}}}, [](Entries e) { return -e[0]; });
}

/// The state and a chunk's sums of queries times their gradients.
void KeyGradTiler::advance(ScanState &state, Value fq) {
  auto add = [&](Value x, Value more, Axes axes) {
    return tile::map(b, loc, tile::shapeOf(x), {{x, axes}, {more, axes}}, [](Entries e) { return e[0] + e[1]; });
  };
  state.S = add(state.S, tile::contract(b, loc, {fq, {2, 0}}, {v, {2, 1}}, {0, 1}), {0, 1});
  if (!state.z)
    return;
  Value products =
      tile::map(b, loc, {chunk, features}, {{fq, {0, 1}}, {w0, {0}}}, [](Entries e) { return e[0] * e[1]; });
  state.z = add(state.z, tile::reduce(b, loc, products, 0, Reduction::Sum), {0});
}

void KeyGradTiler::queryChunk(ScanState &state) {
  if (state.a)
    state = rescale(state, largest(largestExponent({}), state.a));
  advance(state, scaledKeys(state.a));
}

namespace {

/// Keys as what reads the reversed state: scaled by it, and nothing normalised.
ScanOperands reader(const ScanOperands &scan) {
  ScanOperands keys = scan;
  keys.normalize = "none";
  return keys;
}

/// Gradients of the keys that start at `row` from those of their scaled features.
Value finishKeys(OpBuilder &b, Location loc, QueryScale &key, Value y, int64_t row) {
  Value dk = key.pullBackFeatures(y, row);
  if (Value part = key.partOf(row, tile::shapeOf(y)[0]))
    dk = tile::map(b, loc, tile::shapeOf(dk), {{dk, {0, 1}}, {part, {0}}}, [](Entries e) { return e[0] * e[1]; });
  return dk;
}

} // namespace

/// The decay of the keys' own steps up to each of them, {whole, fraction} and negative; the reversed state loses the chunk's.
std::pair<Value, Value> KeyGradTiler::decay(ScanState &state, Rows &keys) {
  if (!scan.keyLog2Decay)
    return {};
  steps = keys.spread(scan.keyLog2Decay);
  if (scan.keyMask)
    mask = keys.spread(scan.keyMask);
  buildDecay();
  Value gain = decayMaxima(state);
  auto scaled = [&](Value x) {
    return tile::map(b, loc, tile::shapeOf(x), {{x, tile::allAxes(x)}, {gain, byFeature ? Axes{0} : Axes{}}},
                     [](Entries e) { return e[0] * e[1]; });
  };
  state.S = scaled(state.S);
  if (state.z)
    state.z = scaled(state.z);
  auto negative = [&](Value x) { return tile::map(b, loc, {chunk}, {{x, {0}}}, [](Entries e) { return -e[0]; }); };
  std::pair<Value, Value> result{negative(whole), negative(fraction)};
  // What is summed are queries: no decay of theirs.
  whole = fraction = mask = {};
  return result;
}

KeyGradient KeyGradTiler::causalChunk(ScanState &state, Rows &keys) {
  std::pair<Value, Value> own = decay(state, keys);
  QueryScale key(reader(scan), b, keys);
  Value values = keys.spread(scan.values);
  Value nonFinite = holdsNonFiniteRows();
  auto [results, fq] = overRanges(
      state, nonFinite,
      {tile::empty(b, loc, {chunk, features}, element), tile::empty(b, loc, tile::shapeOf(values), element),
       tile::empty(b, loc, {chunk}, element)},
      [&](const ScanState &inside, Value scaled, const Range &range, ValueRange old) -> llvm::SmallVector<Value> {
        key.scale(inside.a, own.first, own.second);
        KeyGradient gradient = rows(inside, scaled, range, key, values, {old[0], old[1], old[2]});
        return {gradient.dk, gradient.dv, gradient.c};
      });
  advance(state, fq);
  return withoutMasked(scan, b, {results[0], results[1], results[2]}, keys);
}

/// A masked key has no gradient, whatever it holds.
KeyGradient KeyGradTiler::withoutMasked(const ScanOperands &scan, OpBuilder &b, KeyGradient gradient, Rows &keys) {
  if (!scan.keyMask)
    return gradient;
  Value keyMask = keys.spread(scan.keyMask);
  auto kept = [&](Value x) {
    return tile::map(b, scan.loc, tile::shapeOf(x), {{x, tile::allAxes(x)}, {keyMask, {0}}},
                     [](Entries e) { return select(e[1] == e[1].constant(0), e[0].constant(0), e[0]); });
  };
  return {kept(gradient.dk), kept(gradient.dv), kept(gradient.c)};
}

KeyGradient KeyGradTiler::rows(const ScanState &state, Value fq, const Range &range, QueryScale &key, Value values,
                               KeyGradient old) {
  int64_t granule = std::min(schedule.granule, chunk), valueWidth = tile::shapeOf(values)[1];
  // Queries before the range neither count nor cross the diagonal as 0 * NaN.
  auto late = arith::CmpIPredicate::uge;
  Value w = tile::onlyRows(b, loc, v, late, range.from);
  Value weights = w0 ? tile::onlyRows(b, loc, w0, late, range.from) : Value();
  fq = tile::onlyRows(b, loc, fq, late, range.from);
  KeyGradient result = old;
  auto put = [&](Value &whole, Value before, Value now, int64_t row) {
    whole = tile::insertRows(b, loc, now, before, whole, row, arith::CmpIPredicate::ult, range.to);
  };
  for (int64_t row = 0; row < chunk; row += granule) {
    // The queries from this block on see it.
    int64_t count = std::min(granule, chunk - row), left = chunk - row;
    Value fk = tile::slice(b, loc, key.features(), {row, 0}, {count, features});
    Value seen = tile::slice(b, loc, w, {row, 0}, {left, width});
    Value near = tile::slice(b, loc, fq, {row, 0}, {left, features});
    Value own = tile::slice(b, loc, values, {row, 0}, {count, valueWidth});
    auto fromDiagonal = [&](Value A, Value extra) {
      llvm::SmallVector<Operand> operands{{A, {0, 1}}};
      if (extra)
        operands.push_back({extra, {0}});
      return tile::pointwise(b, loc, {left, count}, operands, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
        Value i = linalg::IndexOp::create(in, at, 0), j = linalg::IndexOp::create(in, at, 1);
        Scalar a(in, at, x[0]);
        if (extra)
          a = a + Scalar(in, at, x[1]);
        return select(arith::CmpIOp::create(in, at, late, i, j), a, a.constant(0));
      });
    };
    Value A = fromDiagonal(tile::contract(b, loc, {near, {0, 2}}, {fk, {1, 2}}, {0, 1}), {});
    Value dv = tile::contract(b, loc, {A, {2, 0}}, {seen, {2, 1}}, {0, 1});
    dv = tile::contract(b, loc, {fk, {0, 2}}, {state.S, {2, 1}}, {0, 1}, dv);
    put(result.dv, old.dv, key.finish(dv, {}, row), row);
    Value extra = weights ? tile::slice(b, loc, weights, {row}, {left}) : Value();
    Value P = fromDiagonal(tile::contract(b, loc, {seen, {0, 2}}, {own, {1, 2}}, {0, 1}), extra);
    Value past = fromState(b, loc, own, w0 ? tile::filled(b, loc, {count}, element, 1) : Value(), state);
    put(result.dk, old.dk, finishKeys(b, loc, key, featureGradient(b, loc, P, near, past), row), row);
    Value c = tile::filled(b, loc, {count}, element, 0);
    if (scan.keyLog2Decay) {
      c = key.pullBackSum(weighed(b, loc, A, P, 0, fk, past), row);
      if (Value part = key.partOf(row, count))
        c = tile::map(b, loc, {count}, {{c, {0}}, {part, {0}}}, [](Entries e) { return e[0] * e[1]; });
    }
    put(result.c, old.c, c, row);
  }
  return result;
}

KeyGradient KeyGradTiler::wholeChunk(phi::ScanGradKeyOp op, OpBuilder &body, const ScanState &state, Rows &keys) {
  ScanOperands scan = ScanOperands::reversed(op);
  Location loc = scan.loc;
  QueryScale key(reader(scan), body, keys);
  key.scale(state.a, {}, {});
  Value dv = tile::contract(body, loc, {key.features(), {0, 2}}, {state.S, {2, 1}}, {0, 1});
  Value one = state.z ? tile::filled(body, loc, {keys.chunk}, scan.element(), 1) : Value();
  Value y = fromState(body, loc, keys.spread(scan.values), one, state);
  return withoutMasked(scan, body,
                       {finishKeys(body, loc, key, y, 0), key.finish(dv, {}, 0),
                        tile::filled(body, loc, {keys.chunk}, scan.element(), 0)},
                       keys);
}

Value decayGradient(phi::ScanGradDecayOp op, OpBuilder &b, Value &total, Rows &queries, Rows &keys) {
  Location loc = op.getLoc();
  Type element = tile::elementOf(op.getResult()), wide = b.getF64Type();
  int64_t chunk = keys.chunk;
  auto widened = [&](OpBuilder &in, Location at, Value x) {
    return Scalar(in, at, element == wide ? x : arith::ExtFOp::create(in, at, wide, x).getResult());
  };
  auto inside = [&](OpBuilder &in, Location at) -> Value {
    return arith::CmpIOp::create(in, at, arith::CmpIPredicate::ult, linalg::IndexOp::create(in, at, 0), keys.valid);
  };
  Value net = tile::pointwise(b, loc, {chunk}, {{queries.spread(op.getR()), {0}}, {keys.spread(op.getC()), {0}}},
                              [&](OpBuilder &in, Location at, ValueRange x) -> Value {
                                Scalar difference = widened(in, at, x[0]) - widened(in, at, x[1]);
                                return select(inside(in, at), difference, difference.constant(0));
                              });
  Value later =
      tile::pointwise(b, loc, {chunk, chunk}, {{net, {1}}}, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
        Value t = linalg::IndexOp::create(in, at, 0), i = linalg::IndexOp::create(in, at, 1);
        Scalar value(in, at, x[0]);
        return select(arith::CmpIOp::create(in, at, arith::CmpIPredicate::uge, i, t), value, value.constant(0));
      });
  llvm::SmallVector<Operand> operands{
      {tile::reduce(b, loc, later, 1, Reduction::Sum), {0}}, {total, {}}, {keys.spread(op.getLog2Decay()), {0}}};
  if (op.getMask())
    operands.push_back({keys.spread(op.getMask()), {0}});
  Value result = tile::pointwise(b, loc, {chunk}, operands, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
    Scalar sum = Scalar(in, at, x[0]) + Scalar(in, at, x[1]), step(in, at, x[2]);
    sum = sum * sum.constant(std::numbers::ln2);
    Scalar gradient(in, at, element == wide ? Value(sum) : arith::TruncFOp::create(in, at, element, sum).getResult());
    Scalar zero = gradient.constant(0);
    gradient = select(step <= step.constant(-kForget), zero, gradient);
    if (op.getMask()) {
      Scalar mask(in, at, x[3]);
      gradient = select(mask == mask.constant(0), zero, gradient);
    }
    return gradient;
  });
  Value part = tile::reduce(b, loc, net, 0, Reduction::Sum);
  total = tile::map(b, loc, {}, {{total, {}}, {part, {}}}, [](Entries e) { return e[0] + e[1]; });
  return result;
}

} // namespace yaglom::compiler
