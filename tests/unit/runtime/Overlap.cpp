// When two strided tensors share memory, compared with counting every address.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Overlap.h"
#include "tests/unit/Catch.h"

#include <random>
#include <set>

using namespace yaglom;
using runtime::overlap;
using runtime::overlapsItself;

namespace {

float memory[1 << 12];

TensorRef view(int64_t offset, Shape shape, Shape strides = {}) {
  return TensorRef(memory + offset, std::move(shape), std::move(strides));
}

/// Every address of a tensor; `count` counts them with repetition.
std::set<const float *> addresses(const TensorRef &tensor, int64_t *count = nullptr) {
  std::set<const float *> all;
  Shape index(tensor.shape.size(), 0);
  int64_t total = 1;
  for (int64_t size : tensor.shape)
    total *= size;
  for (int64_t i = 0; i < total; ++i) {
    int64_t offset = 0;
    for (std::size_t axis = 0, rest = static_cast<std::size_t>(i); axis < index.size(); ++axis) {
      offset += static_cast<int64_t>(rest % static_cast<std::size_t>(tensor.shape[axis])) * tensor.strides[axis];
      rest /= static_cast<std::size_t>(tensor.shape[axis]);
    }
    all.insert(static_cast<const float *>(tensor.data) + offset);
  }
  if (count)
    *count = total;
  return all;
}

} // namespace

TEST_CASE("neighbours do not overlap, and one element in common does") {
  CHECK(!overlap(view(0, {4, 8}), view(32, {4, 8})));
  CHECK(overlap(view(0, {4, 8}), view(31, {4, 8})));
  CHECK(overlap(view(31, {4, 8}), view(0, {4, 8})));
}

TEST_CASE("an empty tensor overlaps nothing") {
  CHECK(!overlap(view(0, {0, 8}), view(0, {4, 8})));
  CHECK(!overlapsItself(view(0, {4, 0}, {0, 0})));
}

TEST_CASE("interleaved slices do not overlap") {
  CHECK(!overlap(view(0, {10, 8}, {32, 1}), view(8, {10, 8}, {32, 1})));
  CHECK(overlap(view(0, {10, 9}, {32, 1}), view(8, {10, 8}, {32, 1})));
  CHECK(!overlap(view(0, {100}, {2}), view(1, {100}, {2})));
  CHECK(!overlap(view(0, {100}, {2}), view(1, {50}, {4})));
}

TEST_CASE("a stride of 0 meets itself, unless the axis has one element") {
  CHECK(overlapsItself(view(0, {2, 8}, {0, 1})));
  CHECK(!overlapsItself(view(0, {1, 8}, {0, 1})));
}

TEST_CASE("the extent of a tensor counts its last element, and refuses what no address space holds") {
  CHECK(runtime::extent(view(0, {2, 3}, {10, 2})) == 15);
  CHECK(runtime::extent(view(0, {2, 0}, {10, 2})) == 0);
  CHECK(runtime::extent(view(0, {2, 2}, {INT64_MAX, INT64_MAX})) == -1);
}

TEST_CASE("random layouts agree with the sets of their addresses") {
  std::mt19937 random(1);
  const auto pick = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
  int wrong = 0, met = 0, apart = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const auto make = [&] {
      return view(pick(60), {1 + pick(3), 1 + pick(3), 1 + pick(3)}, {pick(24), pick(12), pick(4)});
    };
    const TensorRef a = make(), b = make();
    int64_t count = 0;
    const std::set<const float *> ofA = addresses(a, &count), ofB = addresses(b);
    const bool meet = std::any_of(ofA.begin(), ofA.end(), [&](const float *address) { return ofB.contains(address); });
    wrong += overlap(a, b) != meet;
    // May err on the safe side only.
    wrong += !overlapsItself(a) && count != static_cast<int64_t>(ofA.size());
    (meet ? met : apart) += 1;
  }
  CHECK(wrong == 0);
  CHECK(met > 500);
  CHECK(apart > 500);
}
