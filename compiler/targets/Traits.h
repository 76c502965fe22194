// What the targets' candidates share: what cost models know of an attention, and schedules that differ in one field.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/schedule.h"

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace yaglom::compiler {

struct Traits {
  int64_t elementBytes = 4;
  int64_t chunk = 32, granule = 16; ///< the compiler's own
  double fixedWork = 0;             ///< multiply-adds of a token that no schedule changes
  double workPerChunkToken = 0;     ///< those that each token of the chunk adds: of the triangle
  double stateElements = 0;         ///< read and written once a chunk
  double rowElements = 0;           ///< of one token: inputs, features, output
  bool isCausal = false;
  bool isSplit = false;    ///< a sequence is dealt to several threads
  int64_t mostChunk = 128; ///< 0: the chunk is given
};

/// Schedules that differ from one in a field.
class Neighbours {
public:
  explicit Neighbours(const yaglom::Schedule &from) : from(from) {}

  /// `own` is what the compiler takes by itself: it is written as 0, so that one schedule has one text.
  void vary(int64_t yaglom::Schedule::*field, std::initializer_list<int64_t> values, int64_t own) {
    for (const int64_t value : values) {
      yaglom::Schedule schedule = from;
      schedule.*field = value == own ? 0 : value;
      found.push_back(schedule);
    }
  }
  /// Chunks and granules, as far as the attention has them.
  void varyChunks(const Traits &traits, std::initializer_list<int64_t> chunks,
                  std::initializer_list<int64_t> granules) {
    if (!traits.isCausal && !traits.stateElements)
      return;
    for (const int64_t chunk : chunks)
      if (chunk <= traits.mostChunk)
        vary(&yaglom::Schedule::chunk, {chunk}, traits.chunk);
    if (traits.isCausal)
      vary(&yaglom::Schedule::granule, granules, traits.granule);
  }
  void add(const yaglom::Schedule &schedule) { found.push_back(schedule); }
  std::vector<yaglom::Schedule> take() {
    std::erase(found, from);
    return std::move(found);
  }

private:
  const yaglom::Schedule &from;
  std::vector<yaglom::Schedule> found;
};

} // namespace yaglom::compiler
