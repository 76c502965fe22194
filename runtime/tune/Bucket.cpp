// Rounding sizes up to powers of two.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace yaglom::runtime {
namespace {

/// The least n with x <= 2^n.
int logarithm(int64_t x) { return x <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(x - 1)); }

/// The least n with items <= 2^n workers.
int loadOf(int64_t items, int64_t workers) {
  if (items >= workers)
    return logarithm((items + workers - 1) / workers);
  return 1 - static_cast<int>(std::bit_width(static_cast<uint64_t>(workers / std::max<int64_t>(items, 1))));
}

} // namespace

Bucket Bucket::of(const Sizes &sizes, int64_t workers) {
  Bucket bucket;
  bucket.tokens = std::min(logarithm(std::max(sizes.queryLength, sizes.keyLength)), kTokens);
  bucket.load = std::clamp(loadOf(sizes.batch * sizes.heads, workers), kLeastLoad, kMostLoad);
  return bucket;
}

std::string Bucket::text() const {
  const std::string heads = load < 0 ? fmt::format("1/{}", 1 << -load) : fmt::format("{}", 1 << load);
  return fmt::format("up to {} tokens, {}{} heads a worker", int64_t{1} << tokens, heads,
                     load == kMostLoad ? " or more" : "");
}

} // namespace yaglom::runtime
