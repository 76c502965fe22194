// How a kernel is cut for its machine: what changes its speed and the rounding of its results, not their meaning.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace yaglom {

/// Fields that are 0 are the compiler's choice. As text: "chunk=64 tile=6x2 prefetch=none".
///
///     CompileOptions options{.schedule = {.chunk = 64}};
///     options.schedule = Schedule::parse("chunk=64 tile=6x2").value();
struct YAGLOM_API Schedule {
  int64_t chunk = 0;   ///< tokens handled together
  int64_t granule = 0; ///< rows of a chunk that skip the same keys above the diagonal

  // Of processors:
  int64_t tileRows = 0;    ///< "tile=6x2": rows of a contraction's register tile ...
  int64_t tileVectors = 0; ///< ... and vectors in each, 1, 2, 4 or 8; given together
  int64_t pointwise = 0;   ///< vectors of a register tile without contractions
  int64_t unroll = 0;      ///< steps of a contraction in one turn of its loop
  int64_t prefetch = 0;    ///< how many chunks ahead rows are fetched into the cache; kNoPrefetch: not at all
  int64_t segments = 0;    ///< parts of a sequence for each thread, where the heads are fewer than the threads

  // Of GPUs:
  int64_t warps = 0;  ///< of a block
  int64_t stages = 0; ///< buffers of the rows that a loop reads: 1, or 2, so that copies run beside the arithmetic

  static constexpr int64_t kNoPrefetch = -1;

  friend bool operator==(const Schedule &, const Schedule &) = default;

  /// True when all is left to the compiler.
  bool isDefault() const { return *this == Schedule(); }
  /// The fields that are not 0; "default" when there is none.
  std::string toText() const;
  /// Reads what toText() writes; commas serve as blanks do. The Error names the field, what is expected and what was found.
  static Result<Schedule> parse(std::string_view text);
  /// The Error names the field that is out of range.
  Result<void> check() const;
};

} // namespace yaglom
