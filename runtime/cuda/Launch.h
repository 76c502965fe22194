// Starting a prepared function on a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Module.h"

#include <span>
#include <type_traits>

namespace yaglom::cuda {

/// A size in three dimensions. Wide, so that a product that is too large is seen here.
struct Extent {
  uint64_t x = 1;
  uint64_t y = 1;
  uint64_t z = 1;
};

/// How a launch is laid out.
struct LaunchConfig {
  Extent grid = {};              ///< in blocks: x up to 2^31 - 1, y and z up to 65535
  Extent block = {};             ///< in threads
  Extent cluster = {};           ///< in blocks, divides the grid; more than one block from sm_90 on
  size_t dynamicSharedBytes = 0; ///< a block; at most what the function was prepared for
  StreamHandle stream = nullptr; ///< the caller's; null is the legacy default stream, and is passed on as it is
  bool programmatic = false; ///< may begin before the stream's former kernel has ended (griddepcontrol), from sm_90 on
};

/// The bytes of one parameter, read when the launch is enqueued: the caller may change them afterwards.
struct Parameter {
  const void *data;
  size_t bytes;

  /// The bytes of `value`, which must live until the launch returns.
  template <typename T>
  static constexpr Parameter of(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {&value, sizeof(T)};
  }
  template <typename T>
  static Parameter of(const T &&value) = delete;
};

/// Enqueues `function`. Allocates nothing, loads nothing, waits for nothing: may be captured into a graph. `parameters`
/// are as the function declares them, at most 544. Errors, before anything runs: a grid, block, cluster or shared
/// memory out of range; parameters of other number or sizes than the function's. A crash of the kernel shows at a later
/// call.
Result<void> launch(const Function &function, const LaunchConfig &config, std::span<const Parameter> parameters);

} // namespace yaglom::cuda
