// Allocation of rows to mixture components, and Gram-Schmidt on blocks of rows.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/SamplerFunctions.h"

#include <algorithm>

namespace yaglom::reference {

template <typename S>
std::vector<int64_t> allocate(const Value<S> &alpha, int64_t rows) {
  // In plain float64 and in this order: another rounding could move a row to its neighbour.
  std::vector<double> sums;
  sums.reserve(alpha.data.size());
  for (const S &a : alpha.data)
    sums.push_back(valueOf(a).toDouble());
  const double largest = *std::max_element(sums.begin(), sums.end());
  double total = 0;
  for (double &sum : sums)
    sum = total += std::exp(sum - largest);
  std::vector<int64_t> components;
  for (int64_t i = 0; i < rows; ++i) {
    std::size_t q = 0;
    while (q + 1 < sums.size() &&
           !(2 * static_cast<double>(rows) * sums[q] > (2 * static_cast<double>(i) + 1) * sums.back()))
      ++q;
    components.push_back(static_cast<int64_t>(q));
  }
  return components;
}

template <typename S>
Value<S> component(const Value<S> &table, const Value<S> &alpha, int64_t rows) {
  Value<S> result({table.shape.begin() + 1, table.shape.end()}, rows);
  const std::vector<int64_t> components = allocate(alpha, rows);
  const int64_t width = result.width();
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(table.data.data() + components[static_cast<std::size_t>(i)] * width, width, result.row(i));
  return result;
}

template <typename S>
Value<S> orthogonalize(const Value<S> &z) {
  Value<S> result = z;
  const int64_t width = z.width();
  for (int64_t i = 0; i < z.rowCount(); ++i) {
    S *row = result.row(i);
    // Twice: the second pass removes what rounding left of the first.
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = i / width * width; j < i; ++j) {
        const S *other = result.row(j);
        addScaled(row, -dot(row, other, width), other, width);
      }
    const S norm = rootOfSquares(dot(row, row, width));
    for (int64_t c = 0; c < width; ++c)
      row[c] = row[c] / norm;
  }
  return result;
}

template std::vector<int64_t> allocate(const Value<Wide> &, int64_t);
template std::vector<int64_t> allocate(const Value<WideDual> &, int64_t);
template Value<Wide> component(const Value<Wide> &, const Value<Wide> &, int64_t);
template Value<WideDual> component(const Value<WideDual> &, const Value<WideDual> &, int64_t);
template Value<Wide> orthogonalize(const Value<Wide> &);
template Value<WideDual> orthogonalize(const Value<WideDual> &);

} // namespace yaglom::reference
