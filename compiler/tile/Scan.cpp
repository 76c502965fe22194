// One chunk of linear attention as linalg over tiles (language.md section 4; architecture.md, decision 8).
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/Scan.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace yaglom::compiler {

using phi::Scalar;
using tile::Axes;
using tile::Operand;
using tile::Reduction;
using Entries = llvm::ArrayRef<Scalar>;

llvm::SmallVector<Value> ScanState::values() const {
  llvm::SmallVector<Value> all{S};
  if (z)
    all.push_back(z);
  if (a)
    all.push_back(a);
  return all;
}

ScanState ScanState::with(ValueRange values) const {
  return {values[0], z ? values[1] : Value(), a ? values.back() : Value()};
}

ScanState ScanState::initial(OpBuilder &b, const ScanOperands &scan) {
  auto member = [&](Attribute type, double x) {
    auto shaped = cast<RankedTensorType>(cast<TypeAttr>(type).getValue());
    return tile::filled(b, scan.loc, shaped.getShape(), shaped.getElementType(), x);
  };
  ArrayRef<Attribute> types = scan.state.getValue();
  ScanState state{member(types[0], 0), {}, {}};
  types = types.drop_front();
  if (scan.normalizes()) {
    state.z = member(types[0], 0);
    types = types.drop_front();
  }
  if (!types.empty())
    state.a = member(types[0], lowExponent(scan.element()));
  return state;
}

ScanTiler::ScanTiler(const ScanOperands &scan, OpBuilder &body, Rows &keys, const Schedule &schedule)
    : scan(scan), b(body), loc(scan.loc), schedule(schedule), element(scan.element()), chunk(schedule.chunk),
      valid(keys.valid), mostRise(Schedule::range(element)) {
  k = keys.spread(scan.k);
  v = keys.spread(scan.v);
  features = tile::shapeOf(k)[1];
  width = tile::shapeOf(v)[1];
  if (scan.mask) {
    mask = keys.spread(scan.mask);
    maskValues();
  }
  if (scan.log2Decay) {
    steps = keys.spread(scan.log2Decay);
    buildDecay();
  }
  if (scan.kExponent)
    exponent = keys.spread(scan.kExponent);
  buildExponents();
}

/// Whether key token j takes part: it is in the sequence, and its mask is not 0. `in` iterates over tokens on axis 0.
Value ScanTiler::takesPart(OpBuilder &in, Location at, Value maskEntry) const {
  Value j = linalg::IndexOp::create(in, at, 0);
  Value inside = arith::CmpIOp::create(in, at, arith::CmpIPredicate::ult, j, valid);
  if (!maskEntry)
    return inside;
  Value zero = tile::number(in, at, maskEntry.getType(), 0);
  Value kept = arith::CmpFOp::create(in, at, arith::CmpFPredicate::UNE, maskEntry, zero);
  return arith::AndIOp::create(in, at, inside, kept);
}

/// A masked key's value is 0 even if it holds NaN. Rows past the end are 0 already.
void ScanTiler::maskValues() {
  v = tile::pointwise(b, loc, {chunk, width}, {{v, {0, 1}}, {mask, {0}}},
                      [&](OpBuilder &in, Location at, ValueRange x) -> Value {
                        Scalar value(in, at, x[0]);
                        return select(takesPart(in, at, x[1]), value, value.constant(0));
                      });
}

/// Sums in float64: after a strong decay the weak ones must not be rounded away. A step that forgets everything, or all
/// but, counts as kForget; a token that takes no part decays nothing.
void ScanTiler::buildDecay() {
  Type wide = b.getF64Type();
  llvm::SmallVector<Operand> operands{{steps, {0}}};
  if (mask)
    operands.push_back({mask, {0}});
  steps = tile::pointwise(b, loc, {chunk}, operands, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
    Scalar step(in, at, x[0].getType() == wide ? x[0] : arith::ExtFOp::create(in, at, wide, x[0]).getResult());
    step = select(step < step.constant(-kForget), step.constant(-kForget), step);
    return select(takesPart(in, at, mask ? x[1] : Value()), step, step.constant(0));
  });
  Value lower =
      tile::pointwise(b, loc, {chunk, chunk}, {{steps, {1}}}, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
        Value i = linalg::IndexOp::create(in, at, 0), j = linalg::IndexOp::create(in, at, 1);
        Scalar step(in, at, x[0]);
        return select(arith::CmpIOp::create(in, at, arith::CmpIPredicate::ule, j, i), step, step.constant(0));
      });
  Value sums = tile::reduce(b, loc, lower, 1, Reduction::Sum);
  auto part = [&](llvm::function_ref<Scalar(Scalar)> of) {
    return tile::pointwise(b, loc, {chunk}, {{sums, {0}}}, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
      Value y = of(Scalar(in, at, x[0]));
      return element == wide ? y : arith::TruncFOp::create(in, at, element, y).getResult();
    });
  };
  whole = part([](Scalar s) { return floor(s); });
  fraction = part([](Scalar s) { return s - floor(s); });
  lastWhole = tile::slice(b, loc, whole, {chunk - 1}, {1});
  lastFraction = tile::slice(b, loc, fraction, {chunk - 1}, {1});
}

/// Within a chunk key j weighs 2^(f_j - L_j): its own exponent, less the decay since the chunk's start.
void ScanTiler::buildExponents() {
  byFeature = exponent && tile::shapeOf(exponent).size() == 2;
  if (!fraction)
    return;
  if (!exponent) {
    exponent = tile::map(b, loc, {chunk}, {{fraction, {0}}}, [](Entries e) { return -e[0]; });
    return;
  }
  exponent = tile::map(b, loc, tile::shapeOf(exponent), {{exponent, byFeature ? Axes{0, 1} : Axes{0}}, {fraction, {0}}},
                       [](Entries e) { return e[0] - e[1]; });
}

/// The largest exponent of the keys that take part, [F] or []; when `bound` is given, of those that row reads.
Value ScanTiler::largestExponent(Value bound) {
  llvm::SmallVector<Operand> operands{{exponent, byFeature ? Axes{0, 1} : Axes{0}}};
  if (whole)
    operands.push_back({whole, {0}});
  if (mask)
    operands.push_back({mask, {0}});
  Value masked = tile::pointwise(b, loc, tile::shapeOf(exponent), operands,
                                 [&](OpBuilder &in, Location at, ValueRange x) -> Value {
                                   Scalar f(in, at, x[0]);
                                   if (whole)
                                     f = f - Scalar(in, at, x[1]);
                                   Value part = takesPart(in, at, mask ? x.back() : Value());
                                   if (bound) {
                                     Value j = linalg::IndexOp::create(in, at, 0);
                                     auto reads = isReversed ? arith::CmpIPredicate::uge : arith::CmpIPredicate::ule;
                                     Value read = arith::CmpIOp::create(in, at, reads, j, bound);
                                     part = arith::AndIOp::create(in, at, part, read);
                                   }
                                   return select(part, f, f.constant(lowExponent(element)));
                                 });
  return tile::reduce(b, loc, masked, 0, Reduction::MaxExponent);
}

/// The larger of two maxima, [F] or [].
Value ScanTiler::largest(Value x, Value y) {
  Axes axes = byFeature ? Axes{0} : Axes{};
  return tile::map(b, loc, tile::shapeOf(x), {{x, axes}, {y, axes}}, [](Entries e) { return maxNumber(e[0], e[1]); });
}

/// phi(k_j) 2^-a: the keys' features as they meet the state, 0 for a key that takes no part.
Value ScanTiler::scaledKeys(Value a) {
  llvm::SmallVector<Operand> operands{{k, {0, 1}}};
  if (exponent) {
    llvm::SmallVector<Operand> scale{{exponent, byFeature ? Axes{0, 1} : Axes{0}}, {a, byFeature ? Axes{1} : Axes{}}};
    if (whole)
      scale.push_back({whole, {0}});
    Value weight =
        tile::pointwise(b, loc, tile::shapeOf(exponent), scale, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
          Scalar down = floor(Scalar(in, at, x[1]));
          if (whole)
            down = down + Scalar(in, at, x[2]);
          return phi::Exp2ScaledOp::create(in, at, x[0], down);
        });
    operands.push_back({weight, scale[0].axes});
  }
  if (mask)
    operands.push_back({mask, {0}});
  return tile::pointwise(b, loc, {chunk, features}, operands, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
    Scalar f(in, at, x[0]);
    if (exponent)
      f = f * Scalar(in, at, x[1]);
    return select(takesPart(in, at, mask ? x.back() : Value()), f, f.constant(0));
  });
}

/// Whether a value or a feature is not finite: it would cross the diagonal as 0 * NaN. An exponent of -inf is a feature of 0.
Value ScanTiler::holdsNonFiniteRows() {
  Value any = arith::OrIOp::create(b, loc, tile::holdsNonFinite(b, loc, v), tile::holdsNonFinite(b, loc, k));
  if (!exponent)
    return any;
  Axes axes = byFeature ? Axes{0, 1} : Axes{0};
  Value bounded = tile::map(b, loc, tile::shapeOf(exponent), {{exponent, axes}}, [&](Entries e) {
    Scalar low = e[0].constant(lowExponent(element));
    return select(e[0] < low, low, e[0]);
  });
  return arith::OrIOp::create(b, loc, any, tile::holdsNonFinite(b, loc, bounded));
}

Value ScanTiler::causalChunk(ScanState &state, Rows &queries) {
  QueryScale query(scan, b, queries);
  auto [results, fk] = overRanges(
      state, tile::holdsNonFinite(b, loc, v), {tile::empty(b, loc, {chunk, width}, element)},
      [&](const ScanState &inside, Value scaled, const Range &range, ValueRange old) -> llvm::SmallVector<Value> {
        query.scale(inside.a, whole, fraction);
        return {triangle(inside, scaled, range, query, old[0])};
      });
  advance(state, fk);
  return results[0];
}

/// O = A v + phi(q) S over row blocks: what lies above the diagonal of blocks is never formed.
Value ScanTiler::triangle(const ScanState &state, Value fk, const Range &range, QueryScale &query, Value old) {
  int64_t granule = std::min(schedule.granule, chunk);
  Value values = tile::onlyRows(b, loc, v, arith::CmpIPredicate::ult, range.to), past;
  if (state.z)
    past = tile::contract(b, loc, {query.features(), {0, 1}}, {state.z, {1}}, {0});
  Value result = old;
  for (int64_t row = 0; row < chunk; row += granule) {
    int64_t rows = std::min(granule, chunk - row), reach = row + rows;
    Value fq = tile::slice(b, loc, query.features(), {row, 0}, {rows, features});
    Value A =
        tile::contract(b, loc, {tile::slice(b, loc, fk, {0, 0}, {reach, features}), {0, 2}}, {fq, {1, 2}}, {0, 1});
    A = tile::pointwise(b, loc, {reach, rows}, {{A, {0, 1}}}, [&](OpBuilder &in, Location at, ValueRange x) -> Value {
      Value j = linalg::IndexOp::create(in, at, 0);
      Value i = arith::AddIOp::create(in, at, linalg::IndexOp::create(in, at, 1), tile::index(in, at, row));
      Scalar a(in, at, x[0]);
      return select(arith::CmpIOp::create(in, at, arith::CmpIPredicate::ule, j, i), a, a.constant(0));
    });
    Value early = tile::slice(b, loc, values, {0, 0}, {reach, width});
    Value O = tile::contract(b, loc, {A, {2, 0}}, {early, {2, 1}}, {0, 1});
    O = tile::contract(b, loc, {fq, {0, 2}}, {state.S, {2, 1}}, {0, 1}, O);
    Value D;
    if (state.z)
      D = tile::map(
          b, loc, {rows},
          {{tile::reduce(b, loc, A, 0, Reduction::Sum), {0}}, {tile::slice(b, loc, past, {row}, {rows}), {0}}},
          [](Entries e) { return e[0] + e[1]; });
    O = query.finish(O, D, row);
    result = tile::insertRows(b, loc, O, old, result, row, arith::CmpIPredicate::uge, range.from);
  }
  return result;
}

/// Takes the chunk's whole decay off the maxima; returns what is left of it for the state at their scale, [F] or [].
Value ScanTiler::decayMaxima(ScanState &state) {
  Axes axes = byFeature ? Axes{0} : Axes{};
  auto last = [&](Value x) { return tensor::CollapseShapeOp::create(b, loc, x, ArrayRef<ReassociationIndices>{}); };
  Value lw = last(lastWhole), lf = last(lastFraction), before = state.a;
  state.a = tile::map(b, loc, tile::shapeOf(before), {{before, axes}, {lw, {}}, {lf, {}}}, [this](Entries e) {
    Scalar decayed = e[0] + e[1] + e[2];
    Scalar low = decayed.constant(lowExponent(element));
    return select(decayed < low, low, decayed);
  });
  return tile::pointwise(b, loc, tile::shapeOf(before), {{before, axes}, {state.a, axes}, {lw, {}}, {lf, {}}},
                         [](OpBuilder &in, Location at, ValueRange x) -> Value {
                           Scalar old(in, at, x[0]), now(in, at, x[1]), w(in, at, x[2]);
                           return phi::Exp2ScaledOp::create(in, at, x[3], floor(now) - floor(old) - w);
                         });
}

/// S = (S + phi(k)^T v) g, g the decay of the whole chunk. The product starts from zero, so that a long sum of nearly
/// constant features does not round with a bias.
void ScanTiler::advance(ScanState &state, Value fk) {
  Axes axes = byFeature ? Axes{0} : Axes{};
  Value gain = whole ? decayMaxima(state) : Value();
  auto add = [&](Value x, Value more) {
    Axes all = tile::shapeOf(x).size() == 1 ? Axes{0} : Axes{0, 1};
    llvm::SmallVector<Operand> operands{{x, all}, {more, all}};
    if (gain)
      operands.push_back({gain, axes});
    return tile::map(b, loc, tile::shapeOf(x), operands,
                     [&](Entries e) { return gain ? (e[0] + e[1]) * e[2] : e[0] + e[1]; });
  };
  state.S = add(state.S, tile::contract(b, loc, {fk, {2, 0}}, {v, {2, 1}}, {0, 1}));
  if (state.z)
    state.z = add(state.z, tile::reduce(b, loc, fk, 0, Reduction::Sum));
}

void ScanTiler::keyChunk(ScanState &state) {
  if (state.a) {
    Value a = largest(largestExponent({}), state.a);
    state = rescale(state, a);
  }
  advance(state, scaledKeys(state.a));
}

Value ScanTiler::queryChunk(const ScanOperands &scan, OpBuilder &body, const ScanState &state, Rows &queries) {
  Location loc = scan.loc;
  QueryScale query(scan, body, queries);
  query.scale(state.a, {}, {});
  Value O = tile::contract(body, loc, {query.features(), {0, 2}}, {state.S, {2, 1}}, {0, 1});
  Value D;
  if (state.z)
    D = tile::contract(body, loc, {query.features(), {0, 1}}, {state.z, {1}}, {0});
  return query.finish(O, D, 0);
}

} // namespace yaglom::compiler
