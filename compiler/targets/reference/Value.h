// What an expression evaluates to: one number, vector or matrix, or one for each row of a batch of tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Functions.h"

#include <cassert>
#include <cstdint>
#include <vector>

namespace yaglom::reference {

/// A value of shape [], [n] or [n, d] (T1). A value with a side has one such value for each row; a constant has one in all.
template <typename S>
struct Value {
  static constexpr int64_t kConstant = -1;

  std::vector<int64_t> shape;
  int64_t rows = kConstant;
  std::vector<S> data;

  Value() = default;
  Value(S number) : data{number} {}
  Value(std::vector<int64_t> sizes, int64_t rows) : shape(std::move(sizes)), rows(rows) {
    data.resize(static_cast<std::size_t>((isConstant() ? 1 : rows) * width()));
  }

  bool isConstant() const { return rows == kConstant; }
  /// Numbers in one row.
  int64_t width() const {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    return count;
  }
  /// How many rows there are to compute: one of a constant.
  int64_t rowCount() const { return isConstant() ? 1 : rows; }
  S *row(int64_t index) { return data.data() + (isConstant() ? 0 : index * width()); }
  const S *row(int64_t index) const { return data.data() + (isConstant() ? 0 : index * width()); }
};

/// The rows of a result of `a` and `b`: constants go with any side.
template <typename S>
int64_t commonRows(const Value<S> &a, const Value<S> &b) {
  assert((a.isConstant() || b.isConstant() || a.rows == b.rows) && "the checker admits no two sides");
  return a.isConstant() ? b.rows : a.rows;
}

/// `operation` entry by entry; shapes are equal, or one is a scalar, or [n, d] meets [d] per row (T3).
template <typename S, typename Operation>
Value<S> elementwise(const Value<S> &a, const Value<S> &b, Operation operation) {
  const int64_t widthA = a.width(), widthB = b.width();
  Value<S> result(a.shape.size() >= b.shape.size() ? a.shape : b.shape, commonRows(a, b));
  const int64_t width = result.width();
  assert((widthA == 0 || width % widthA == 0) && (widthB == 0 || width % widthB == 0) && "shapes are checked");
  for (int64_t r = 0; r < result.rowCount(); ++r) {
    const S *x = a.row(r), *y = b.row(r);
    S *out = result.row(r);
    // The last axis runs fastest, so a scalar and a vector per row both repeat with their own width.
    for (int64_t i = 0; i < width; ++i)
      out[i] = operation(x[widthA == width ? i : i % widthA], y[widthB == width ? i : i % widthB]);
  }
  return result;
}

/// `operation` on every number.
template <typename S, typename Operation>
Value<S> pointwise(const Value<S> &x, Operation operation) {
  Value<S> result(x.shape, x.rows);
  for (std::size_t i = 0; i < x.data.size(); ++i)
    result.data[i] = operation(x.data[i]);
  return result;
}

/// `operation(row, width)` turns each row to one number.
template <typename S, typename Operation>
Value<S> reduceRows(const Value<S> &x, Operation operation) {
  Value<S> result(std::vector<int64_t>{}, x.rows);
  for (int64_t r = 0; r < x.rowCount(); ++r)
    *result.row(r) = operation(x.row(r), x.width());
  return result;
}

} // namespace yaglom::reference
