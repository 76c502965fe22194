// Overlap of strided tensors: a bounded linear equation, solved largest stride first.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Overlap.h"

#include <algorithm>
#include <array>
#include <span>

namespace yaglom::runtime {
namespace {

/// `stride` times a number in [0, count].
struct Term {
  int64_t stride;
  int64_t count;
};

/// The axes that have more than one element, largest stride first. More axes than any tensor of ours has do not fit.
class Terms {
public:
  void add(int64_t stride, int64_t count) {
    if (count > 0 && used < terms.size())
      terms[used++] = {stride, count};
  }
  void addAxes(const TensorRef &tensor) {
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      add(tensor.strides[axis], tensor.shape[axis] - 1);
  }
  std::span<const Term> sorted() {
    std::sort(terms.begin(), terms.begin() + used, [](Term a, Term b) { return a.stride > b.stride; });
    return {terms.data(), used};
  }
  /// Terms of one stride become one: s i + s j takes every value of s [0, n + m].
  std::span<const Term> merged() {
    sorted();
    std::size_t last = 0;
    for (std::size_t i = 1; i < used; ++i)
      if (terms[i].stride == terms[last].stride)
        terms[last].count += terms[i].count;
      else
        terms[++last] = terms[i];
    return {terms.data(), used ? last + 1 : 0};
  }

private:
  std::array<Term, 16> terms;
  std::size_t used = 0;
};

int64_t reach(std::span<const Term> terms) {
  int64_t sum = 0;
  for (const Term &term : terms)
    sum += term.stride * term.count;
  return sum;
}

/// Is there a sum of the terms equal to `target`? Of nested strides only a few multiples of each are tried. The problem
/// is hard in general, so after `budget` steps the answer is yes.
bool solvable(std::span<const Term> terms, int64_t target, int &budget) {
  if (terms.empty())
    return target == 0;
  const auto [stride, count] = terms.front();
  const std::span<const Term> rest = terms.subspan(1);
  const int64_t restReach = reach(rest);
  if (target < 0 || target > stride * count + restReach)
    return false;
  if (stride == 0)
    return target == 0;
  const int64_t least = target <= restReach ? 0 : (target - restReach + stride - 1) / stride;
  const int64_t most = std::min(count, target / stride);
  for (int64_t factor = least; factor <= most; ++factor)
    if (--budget < 0 || solvable(rest, target - stride * factor, budget))
      return true;
  return false;
}

} // namespace

int64_t extent(const TensorRef &tensor) {
  int64_t last = 0;
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    if (tensor.shape[axis] == 0)
      return 0;
    int64_t span = 0;
    if (__builtin_mul_overflow(tensor.strides[axis], tensor.shape[axis] - 1, &span) ||
        __builtin_add_overflow(last, span, &last))
      return -1;
  }
  int64_t bytes = 0;
  // A quarter of the address space, so that sums of two extents never overflow either.
  if (__builtin_mul_overflow(last + 1, static_cast<int64_t>(sizeOf(tensor.dtype)), &bytes) || bytes > INT64_MAX / 4)
    return -1;
  return last + 1;
}

bool overlapsItself(const TensorRef &tensor) {
  if (extent(tensor) == 0)
    return false;
  Terms terms;
  terms.addAxes(tensor);
  const std::span<const Term> sorted = terms.sorted();
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i].stride <= reach(sorted.subspan(i + 1)))
      return true;
  return false;
}

bool overlap(const TensorRef &a, const TensorRef &b) {
  const int64_t extentA = extent(a);
  const int64_t extentB = extent(b);
  if (extentA == 0 || extentB == 0 || a.device != b.device)
    return false;
  const auto size = static_cast<int64_t>(sizeOf(a.dtype));
  const int64_t distance = (reinterpret_cast<intptr_t>(b.data) - reinterpret_cast<intptr_t>(a.data)) / size;
  if (distance >= extentA || -distance >= extentB)
    return false;
  // a + sum s i = b + sum t j: with j counted from its end every term is positive.
  Terms terms;
  terms.addAxes(a);
  terms.addAxes(b);
  int budget = 10000;
  return solvable(terms.merged(), distance + extentB - 1, budget);
}

} // namespace yaglom::runtime
