// Which rows of a chunk are computed together, and the state at their scale (docs/rationale/0007).
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/Scan.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace yaglom::compiler {

using phi::Scalar;
using tile::Axes;
using tile::Reduction;
using Entries = llvm::ArrayRef<Scalar>;

/// Whether some entry of `x` exceeds that of `y` by more than the exponents of one range may differ.
Value ScanTiler::exceeds(Value x, Value y) {
  Axes axes = byFeature ? Axes{0} : Axes{};
  Value rise = tile::map(b, loc, tile::shapeOf(x), {{x, axes}, {y, axes}}, [](Entries e) { return e[0] - e[1]; });
  if (byFeature)
    rise = tile::reduce(b, loc, rise, 0, Reduction::MaxExponent);
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, tile::scalar(b, loc, rise),
                               tile::number(b, loc, element, mostRise));
}

/// All rows that are left, unless a later key would push an earlier row out of range, or a value is not finite: then one
/// row. Ranges differ by exact powers of two only, so a row's bits do not depend on them. `most` are the largest exponents
/// of the chunk's keys.
ScanTiler::Range ScanTiler::nextRange(Value from, const ScanState &state, Value nonFinite, Value most) {
  Range range{from, {}, {}};
  Value single = nonFinite, all, early;
  if (state.a) {
    all = largest(most, state.a);
    // The keys up to the first row matter only if the chunk as a whole rises far above the state.
    auto branch = scf::IfOp::create(
        b, loc, exceeds(all, state.a),
        [&](OpBuilder &, Location l) { scf::YieldOp::create(b, l, largest(largestExponent(from), state.a)); },
        [&](OpBuilder &at, Location l) { scf::YieldOp::create(at, l, all); });
    early = branch.getResult(0);
    single = arith::OrIOp::create(b, loc, single, exceeds(all, early));
  }
  Value one = tile::index(b, loc, 1);
  if (isReversed) {
    // `from` is the last row that is left.
    range.to = arith::AddIOp::create(b, loc, from, one);
    range.from = arith::SelectOp::create(b, loc, single, from, tile::index(b, loc, 0));
  } else {
    range.to = arith::SelectOp::create(b, loc, single, arith::AddIOp::create(b, loc, from, one), valid);
  }
  if (state.a) {
    Axes axes = byFeature ? Axes{0} : Axes{};
    range.a = tile::map(b, loc, tile::shapeOf(all), {{all, axes}, {early, axes}},
                        [&](Entries e) { return select(single, e[1], e[0]); });
  }
  return range;
}

/// The state at the scale of maxima `a`: untouched when their whole parts agree.
ScanState ScanTiler::rescale(const ScanState &state, Value a) {
  Axes axes = byFeature ? Axes{0} : Axes{};
  Value shift = tile::map(b, loc, tile::shapeOf(a), {{state.a, axes}, {a, axes}},
                          [](Entries e) { return floor(e[0]) - floor(e[1]); });
  Value most = tile::map(b, loc, tile::shapeOf(a), {{shift, axes}}, [](Entries e) { return abs(e[0]); });
  if (byFeature)
    most = tile::reduce(b, loc, most, 0, Reduction::MaxExponent);
  Value changed = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, tile::scalar(b, loc, most),
                                        tile::number(b, loc, element, 0));
  llvm::SmallVector<Value> values{state.S};
  if (state.z)
    values.push_back(state.z);
  auto scaled = [&](OpBuilder &at, Location l) {
    llvm::SmallVector<Value> results;
    for (Value x : values) {
      results.push_back(tile::pointwise(
          at, l, tile::shapeOf(x), {{x, tile::allAxes(x)}, {shift, axes}},
          [](OpBuilder &in, Location m, ValueRange y) -> Value { return phi::LdexpOp::create(in, m, y[0], y[1]); }));
    }
    scf::YieldOp::create(at, l, results);
  };
  auto branch = scf::IfOp::create(b, loc, changed, scaled,
                                  [&](OpBuilder &at, Location l) { scf::YieldOp::create(at, l, values); });
  return {branch.getResult(0), state.z ? branch.getResult(1) : Value(), a};
}

/// All rows of the chunk, range by range; reversed, from the last row on. Also returns the features at the last scale, at
/// which the state is left.
std::pair<llvm::SmallVector<Value>, Value> ScanTiler::overRanges(ScanState &state, Value nonFinite,
                                                                 llvm::ArrayRef<Value> empty, OfRange compute) {
  Value most = state.a ? largestExponent({}) : Value();
  // Without exponents the features of the keys do not depend on the range.
  Value fk = state.a ? tile::empty(b, loc, {chunk, features}, element) : scaledKeys({});
  // Carried: the row to begin with, or how many rows are left; the results; what depends on the scale.
  llvm::SmallVector<Value> inits{isReversed ? valid : tile::index(b, loc, 0)};
  llvm::append_range(inits, empty);
  if (state.a)
    inits.push_back(fk);
  size_t fixed = inits.size();
  llvm::append_range(inits, state.values());
  auto loop = scf::WhileOp::create(
      b, loc, ValueRange(inits).getTypes(), inits,
      [&](OpBuilder &at, Location l, ValueRange args) {
        auto isLeft = isReversed ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::ult;
        Value end = isReversed ? tile::index(at, l, 0) : valid;
        scf::ConditionOp::create(at, l, arith::CmpIOp::create(at, l, isLeft, args[0], end), args);
      },
      [](OpBuilder &, Location, ValueRange) {});

  b.setInsertionPointToStart(loop.getAfterBody());
  ValueRange args = loop.getAfterArguments();
  ScanState inside = state.with(args.drop_front(fixed));
  Value first = args[0];
  if (isReversed)
    first = arith::SubIOp::create(b, loc, first, tile::index(b, loc, 1));
  Range range = nextRange(first, inside, nonFinite, most);
  if (inside.a) {
    inside = rescale(inside, range.a);
    fk = scaledKeys(range.a);
  }
  llvm::SmallVector<Value> results{isReversed ? range.from : range.to};
  llvm::append_range(results, compute(inside, fk, range, args.slice(1, empty.size())));
  if (inside.a)
    results.push_back(fk);
  llvm::append_range(results, inside.values());
  scf::YieldOp::create(b, loc, results);

  b.setInsertionPointAfter(loop);
  if (state.a)
    fk = loop.getResult(fixed - 1);
  state = state.with(loop.getResults().drop_front(fixed));
  return {llvm::SmallVector<Value>(loop.getResults().slice(1, empty.size())), fk};
}

} // namespace yaglom::compiler
