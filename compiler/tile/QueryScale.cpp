// Scaling of query features and the four forms of `normalize` (language.md section 4).
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/QueryScale.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

using namespace mlir;

namespace yaglom::compiler {

using phi::Scalar;
using tile::Axes;
using tile::Reduction;
using Entries = llvm::ArrayRef<Scalar>;

QueryScale::QueryScale(const ScanOperands &scan, OpBuilder &body, Rows &queries)
    : scan(scan), b(body), loc(scan.loc), chunk(queries.chunk) {
  q = queries.spread(scan.q);
  count = tile::shapeOf(q)[1];
  if (scan.qExponent)
    exponent = queries.spread(scan.qExponent);
  if (scan.scale)
    factor = queries.spread(scan.scale);
}

static Value product(OpBuilder &b, Location loc, Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return tile::map(b, loc, tile::shapeOf(x), {{x, {0}}, {y, {0}}}, [](Entries e) { return e[0] * e[1]; });
}

static Value sum(OpBuilder &b, Location loc, Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return tile::map(b, loc, tile::shapeOf(x), {{x, {0}}, {y, {0}}}, [](Entries e) { return e[0] + e[1]; });
}

/// Each feature has an exponent of its own: b_i is the largest of them, and the features are scaled by it.
void QueryScale::scaleByFeature(Value a) {
  Axes own = exponent && tile::shapeOf(exponent).size() == 2 ? Axes{0, 1} : Axes{0};
  Axes state = a && !tile::shapeOf(a).empty() ? Axes{1} : Axes{};
  llvm::SmallVector<tile::Operand> operands;
  if (exponent)
    operands.push_back({exponent, own});
  if (a)
    operands.push_back({a, state});
  Value sums = tile::map(b, loc, {chunk, count}, operands, [&](Entries e) -> Value {
    if (!a)
      return e[0];
    return exponent ? e[0] + floor(e[1]) : floor(e[0]);
  });
  Value most = tile::reduce(b, loc, sums, 1, Reduction::MaxExponent);
  shift = tile::map(b, loc, {chunk}, {{most, {0}}}, [](Entries e) { return floor(e[0]); });
  operands.push_back({shift, {0}});
  weight = tile::pointwise(b, loc, {chunk, count}, operands, [&](OpBuilder &in, Location at, ValueRange v) -> Value {
    Scalar down(in, at, v.back());
    Scalar own = exponent ? Scalar(in, at, v[0]) : down.constant(0);
    if (a)
      down = down - floor(Scalar(in, at, v[exponent ? 1 : 0]));
    return phi::Exp2ScaledOp::create(in, at, own, down);
  });
  fq = tile::map(b, loc, {chunk, count}, {{weight, {0, 1}}, {q, {0, 1}}}, [](Entries e) { return e[1] * e[0]; });
}

void QueryScale::scale(Value a, Value whole, Value fraction) {
  bool byFeature = (a && !tile::shapeOf(a).empty()) || (exponent && tile::shapeOf(exponent).size() == 2);
  rest = weight = shift = {};
  if (byFeature) {
    scaleByFeature(a);
    base = shift;
  } else {
    fq = q;
    if (a)
      shift = tile::map(b, loc, {chunk}, {{a, {}}}, [](Entries e) { return floor(e[0]); });
    base = shift;
    if (exponent) {
      Value own = tile::map(b, loc, {chunk}, {{exponent, {0}}}, [](Entries e) { return floor(e[0]); });
      rest = tile::map(b, loc, {chunk}, {{exponent, {0}}}, [](Entries e) { return exp2(e[0] - floor(e[0])); });
      shift = sum(b, loc, shift, own);
    }
  }
  // The decay up to the query is common to all its terms: a bare normaliser divides it out.
  if (whole && scan.normalize != "bare") {
    shift = sum(b, loc, shift, whole);
    Value decayed = tile::map(b, loc, {chunk}, {{fraction, {0}}}, [](Entries e) { return exp2(e[0]); });
    rest = product(b, loc, rest, decayed);
  }
  leftover = product(b, loc, factor, rest);
}

Value QueryScale::rowOf(Value x, int64_t row, int64_t rows) { return tile::slice(b, loc, x, {row}, {rows}); }

/// The constant of eps, clamp or signed next to a normaliser scaled by 2^-down.
Value QueryScale::boundOf(OpBuilder &in, Location at, Value down) const {
  Value bound = tile::number(in, at, scan.element(), scan.threshold);
  return down ? phi::LdexpOp::create(in, at, bound, -Scalar(in, at, down)).getResult() : bound;
}

/// What the outputs are divided by before the row's own factor, [rows].
Value QueryScale::denominator(Value D, int64_t row) {
  llvm::StringRef form = scan.normalize;
  if (form == "bare")
    return D;
  int64_t rows = tile::shapeOf(D)[0];
  llvm::SmallVector<tile::Operand> operands{{D, {0}}};
  Value part = partOf(row, rows);
  if (part)
    operands.push_back({part, {0}});
  if (shift)
    operands.push_back({rowOf(shift, row, rows), {0}});
  return tile::pointwise(b, loc, {rows}, operands, [&](OpBuilder &in, Location at, ValueRange v) -> Value {
    Scalar d(in, at, v[0]), bound(in, at, boundOf(in, at, shift ? v.back() : Value()));
    if (part)
      d = d * Scalar(in, at, v[1]);
    if (form == "eps")
      return d + bound;
    if (form == "clamp")
      return max(d, bound);
    return select(d < d.constant(0), -max(-d, bound), max(d, bound));
  });
}

/// What N becomes the output by, once a row; D = 0 gives 0, also where a threshold scaled by 2^-b has vanished.
Value QueryScale::inverse(Value D, Value d, int64_t row) {
  int64_t rows = tile::shapeOf(D)[0];
  bool bare = scan.normalize == "bare";
  llvm::SmallVector<tile::Operand> operands{{d, {0}}};
  if (Value part = partOf(row, rows))
    operands.push_back({part, {0}});
  return tile::map(b, loc, {rows}, operands, [&](Entries e) -> Value {
    Scalar zero = e[0].constant(0), one = e[0].constant(1);
    if (e.size() == 1)
      return select(e[0] == zero, e[0], one / e[0]);
    // Of a bare normaliser the factor divides out, unless it is 0, which gives 0, or no number, which gives NaN.
    if (bare)
      return select(e[0] == zero, e[0], select(e[1] == zero, e[1] * e[0], (e[1] * zero + one) / e[0]));
    return select(e[0] == zero, e[0], e[1] / e[0]);
  });
}

Value QueryScale::finish(Value O, Value D, int64_t row) {
  int64_t rows = tile::shapeOf(O)[0];
  if (scan.normalize == "none") {
    Value part = partOf(row, rows), down = shift ? rowOf(shift, row, rows) : Value();
    llvm::SmallVector<tile::Operand> operands{{O, {0, 1}}};
    if (part)
      operands.push_back({part, {0}});
    if (down)
      operands.push_back({down, {0}});
    if (operands.size() == 1)
      return O;
    return tile::pointwise(b, loc, tile::shapeOf(O), operands, [&](OpBuilder &in, Location at, ValueRange v) -> Value {
      Scalar o(in, at, v[0]);
      if (part)
        o = o * Scalar(in, at, v[1]);
      return down ? phi::LdexpOp::create(in, at, o, v.back()).getResult() : Value(o);
    });
  }
  return tile::map(b, loc, tile::shapeOf(O), {{O, {0, 1}}, {inverse(D, denominator(D, row), row), {0}}},
                   [](Entries e) { return e[0] * e[1]; });
}

/// How much of the gradient of ln s is left: none under a bare normaliser, all where D is clamped, c / d with eps.
Value QueryScale::clampedPart(Value D, Value d, int64_t row) {
  int64_t rows = tile::shapeOf(D)[0];
  llvm::StringRef form = scan.normalize;
  if (form == "bare")
    return tile::filled(b, loc, {rows}, scan.element(), 0);
  llvm::SmallVector<tile::Operand> operands{{D, {0}}, {d, {0}}};
  Value part = partOf(row, rows);
  if (part)
    operands.push_back({part, {0}});
  if (shift)
    operands.push_back({rowOf(shift, row, rows), {0}});
  return tile::pointwise(b, loc, {rows}, operands, [&](OpBuilder &in, Location at, ValueRange v) -> Value {
    Scalar own(in, at, v[0]), divisor(in, at, v[1]), bound(in, at, boundOf(in, at, shift ? v.back() : Value()));
    if (part)
      own = own * Scalar(in, at, v[2]);
    if (form == "eps")
      return bound / divisor;
    if (form == "signed")
      own = abs(own);
    return select(own <= bound, own.constant(1), own.constant(0));
  });
}

QueryScale::Gradients QueryScale::pullBack(Value grad, Value N, Value D, int64_t row) {
  int64_t rows = tile::shapeOf(N)[0];
  Value products =
      tile::map(b, loc, tile::shapeOf(N), {{grad, {0, 1}}, {N, {0, 1}}}, [](Entries e) { return e[0] * e[1]; });
  Value dot = tile::reduce(b, loc, products, 1, Reduction::Sum);
  auto scaled = [&](Value x, Value y) { return product(b, loc, x, y ? rowOf(y, row, rows) : Value()); };
  auto times = [&](Value x, Value y) {
    return y ? tile::map(b, loc, tile::shapeOf(x), {{x, {0, 1}}, {y, {0}}}, [](Entries e) { return e[0] * e[1]; }) : x;
  };
  Gradients result;
  if (scan.normalize == "none") {
    result.w = times(grad, partOf(row, rows));
    result.dscale = scaled(dot, rest);
    if (shift)
      result.dscale = tile::pointwise(
          b, loc, {rows}, {{result.dscale, {0}}, {rowOf(shift, row, rows), {0}}},
          [](OpBuilder &in, Location at, ValueRange v) -> Value { return phi::LdexpOp::create(in, at, v[0], v[1]); });
    result.t = scaled(result.dscale, factor);
    return result;
  }
  Value d = denominator(D, row), inverted = inverse(D, d, row), clamped = clampedPart(D, d, row);
  bool isBound = scan.normalize == "clamp" || scan.normalize == "signed";
  result.w = times(grad, inverted);
  result.w0 = tile::map(b, loc, {rows}, {{dot, {0}}, {inverted, {0}}, {clamped, {0}}}, [&](Entries e) -> Value {
    Scalar gradient = -(e[0] * e[1] * e[1]);
    return isBound ? select(e[2] == e[2].constant(1), e[2].constant(0), gradient) : gradient;
  });
  result.dscale = tile::map(b, loc, {rows}, {{scaled(dot, rest), {0}}, {d, {0}}, {clamped, {0}}}, [](Entries e) {
    Scalar zero = e[0].constant(0);
    return select(e[1] == zero, zero, select(e[2] == zero, zero, e[0] / e[1] * e[2]));
  });
  result.t = scaled(result.dscale, factor);
  return result;
}

Value QueryScale::pullBackFeatures(Value y, int64_t row) {
  int64_t rows = tile::shapeOf(y)[0];
  llvm::SmallVector<tile::Operand> operands{{y, {0, 1}}};
  bool shifts = shift && scan.normalize == "none";
  if (weight)
    operands.push_back({tile::slice(b, loc, weight, {row, 0}, {rows, count}), {0, 1}});
  if (shifts)
    operands.push_back({rowOf(shift, row, rows), {0}});
  if (operands.size() == 1)
    return y;
  return tile::pointwise(b, loc, tile::shapeOf(y), operands, [&](OpBuilder &in, Location at, ValueRange v) -> Value {
    Scalar gradient(in, at, v[0]);
    if (weight)
      gradient = gradient * Scalar(in, at, v[1]);
    return shifts ? phi::LdexpOp::create(in, at, gradient, v.back()).getResult() : Value(gradient);
  });
}

Value QueryScale::pullBackSum(Value sum, int64_t row) {
  if (!shift || scan.normalize != "none")
    return sum;
  int64_t rows = tile::shapeOf(sum)[0];
  return tile::pointwise(
      b, loc, {rows}, {{sum, {0}}, {rowOf(shift, row, rows), {0}}},
      [](OpBuilder &in, Location at, ValueRange v) -> Value { return phi::LdexpOp::create(in, at, v[0], v[1]); });
}

Value QueryScale::baseOfRows() {
  bool none = scan.normalize == "none";
  Value whole = base;
  if (none && shift)
    whole = base ? tile::map(b, loc, {chunk}, {{base, {0}}, {shift, {0}}}, [](Entries e) { return e[0] - e[1]; })
                 : tile::map(b, loc, {chunk}, {{shift, {0}}}, [](Entries e) { return -e[0]; });
  return whole ? whole : tile::filled(b, loc, {chunk}, scan.element(), 0);
}

} // namespace yaglom::compiler
