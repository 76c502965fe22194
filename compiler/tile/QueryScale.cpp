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

QueryScale::QueryScale(phi::ScanOp op, OpBuilder &body, Rows &queries)
    : op(op), b(body), loc(op.getLoc()), chunk(queries.chunk) {
  q = queries.spread(op.getQ());
  count = tile::shapeOf(q)[1];
  if (op.getQExponent())
    exponent = queries.spread(op.getQExponent());
  if (op.getScale())
    factor = queries.spread(op.getScale());
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
  operands.push_back({q, {0, 1}});
  fq = tile::pointwise(b, loc, {chunk, count}, operands, [&](OpBuilder &in, Location at, ValueRange v) -> Value {
    Scalar down(in, at, v[v.size() - 2]), feature(in, at, v.back());
    Scalar own = exponent ? Scalar(in, at, v[0]) : down.constant(0);
    if (a)
      down = down - floor(Scalar(in, at, v[exponent ? 1 : 0]));
    return feature * Scalar(in, at, phi::Exp2ScaledOp::create(in, at, own, down));
  });
}

void QueryScale::scale(Value a, Value whole, Value fraction) {
  bool byFeature = (a && !tile::shapeOf(a).empty()) || (exponent && tile::shapeOf(exponent).size() == 2);
  leftover = factor;
  if (byFeature) {
    scaleByFeature(a);
  } else {
    fq = q;
    shift = {};
    if (a)
      shift = tile::map(b, loc, {chunk}, {{a, {}}}, [](Entries e) { return floor(e[0]); });
    if (exponent) {
      Value own = tile::map(b, loc, {chunk}, {{exponent, {0}}}, [](Entries e) { return floor(e[0]); });
      Value rest = tile::map(b, loc, {chunk}, {{exponent, {0}}}, [](Entries e) { return exp2(e[0] - floor(e[0])); });
      shift = sum(b, loc, shift, own);
      leftover = product(b, loc, leftover, rest);
    }
  }
  // The decay up to the query is common to all its terms: a bare normaliser divides it out.
  if (whole && op.getNormalize() != "bare") {
    shift = sum(b, loc, shift, whole);
    Value rest = tile::map(b, loc, {chunk}, {{fraction, {0}}}, [](Entries e) { return exp2(e[0]); });
    leftover = product(b, loc, leftover, rest);
  }
}

Value QueryScale::rowOf(Value x, int64_t row, int64_t rows) { return tile::slice(b, loc, x, {row}, {rows}); }

Value QueryScale::finish(Value O, Value D, int64_t row) {
  int64_t rows = tile::shapeOf(O)[0];
  llvm::StringRef form = op.getNormalize();
  double threshold = op.getThreshold().convertToDouble();
  Value part = leftover ? rowOf(leftover, row, rows) : Value(), down = shift ? rowOf(shift, row, rows) : Value();
  if (form == "none") {
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
  llvm::SmallVector<tile::Operand> operands{{D, {0}}};
  if (part)
    operands.push_back({part, {0}});
  if (form != "bare" && down)
    operands.push_back({down, {0}});
  // 1 / denominator once a row; D = 0 gives 0, also where a threshold scaled by 2^-b has vanished.
  Value inverse = tile::pointwise(b, loc, {rows}, operands, [&](OpBuilder &in, Location at, ValueRange v) -> Value {
    Scalar d(in, at, v[0]);
    if (form == "bare" && part) {
      // The factor divides out, unless it is 0, which gives 0, or no number, which gives NaN.
      Scalar factor(in, at, v[1]), zero = d.constant(0);
      return select(d == zero, d, select(factor == zero, factor * d, (factor * zero + d.constant(1)) / d));
    }
    Scalar numerator = part ? Scalar(in, at, v[1]) : d.constant(1);
    Scalar bound = d.constant(threshold);
    if (part)
      d = d * numerator;
    if (form != "bare" && down)
      bound = Scalar(in, at, phi::LdexpOp::create(in, at, bound, -Scalar(in, at, v.back())));
    if (form == "eps")
      d = d + bound;
    else if (form == "clamp")
      d = max(d, bound);
    else if (form == "signed")
      d = select(d < d.constant(0), -max(-d, bound), max(d, bound));
    return select(d == d.constant(0), d, numerator / d);
  });
  return tile::map(b, loc, tile::shapeOf(O), {{O, {0, 1}}, {inverse, {0}}}, [](Entries e) { return e[0] * e[1]; });
}

} // namespace yaglom::compiler
