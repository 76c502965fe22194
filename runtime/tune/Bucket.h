// Sizes that share a tuned schedule: powers of two of tokens, and of heads for each worker of the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace yaglom::runtime {

/// The dynamic sizes of a launch.
struct Sizes {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t queryLength = 0;
  int64_t keyLength = 0;
};

/// Up to 2^tokens tokens, and up to 2^load items (batch times heads) for each worker. Workers are what the machine has, not what
/// a launch asks for: the number of threads of a launch changes no bit.
struct Bucket {
  static constexpr int kTokens = 40;
  static constexpr int kLeastLoad = -6, kMostLoad = 3; ///< beyond, nothing changes
  static constexpr int kCount = (kTokens + 1) * (kMostLoad - kLeastLoad + 1);

  int tokens = 0;
  int load = 0;

  static Bucket of(const Sizes &sizes, int64_t workers);

  /// From 0 to kCount - 1.
  int index() const { return tokens * (kMostLoad - kLeastLoad + 1) + load - kLeastLoad; }
  /// "up to 4096 tokens, 4 heads a worker"
  std::string text() const;
};

} // namespace yaglom::runtime
