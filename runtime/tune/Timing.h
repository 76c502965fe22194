// Two subjects timed in turns, so that what disturbs the machine meets both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tune/Watch.h"
#include "runtime/tune/Workload.h"

#include <vector>

namespace yaglom::runtime::tune {

/// Median, and median distance from it.
struct Middle {
  double median = 0, spread = 0;
  explicit Middle(std::vector<double> values);
};

/// Milliseconds of both (of processor time, on one thread of the host), and the ratio of the second to the first, turn by turn.
struct Comparison {
  std::vector<double> first, second, ratios;
  double secondsOfRound = 0; ///< of the last, by the clock on the wall

  std::size_t rounds() const { return ratios.size(); }
  double ratio() const { return Middle(ratios).median; }
  /// Twice the standard error of the ratio, by its spread.
  double ratioSpread() const;
  /// Beyond noise, and by enough to matter.
  bool isFaster() const;
  /// It seems so, but for the noise.
  bool mayBeFaster() const;
};

/// What ends a comparison.
struct TimingLimits {
  Clock::time_point deadline; ///< no round begins that would not end before
  const std::atomic<bool> *cancel = nullptr;
  double seconds = 1;    ///< after the fewest rounds, this ends it; later where a gain is seen, but not surely
  std::size_t least = 5; ///< rounds that an answer needs
  std::size_t most = 50;
  bool mayGiveUp = true; ///< ends as soon as the second is seen not to be faster
};

/// Both have been launched once. Throws what a launch throws.
Comparison compare(Subject &first, Subject &second, const TimingLimits &limits);

} // namespace yaglom::runtime::tune
