// Work in a child process that is watched: it may crash or hang without harm to this one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

namespace yaglom::runtime::tune {

using Clock = std::chrono::steady_clock;

struct Watched {
  enum class End {
    Done,      ///< `text` is what the work returned
    Failed,    ///< `text` is its Error, or how the process ended
    Late,      ///< it was stopped at the deadline
    Cancelled, ///< it was stopped because `cancel` became true
  };
  End end;
  std::string text;
};

/// Runs `work` in a fork of this process and returns when that has ended. The child has the calling thread alone, prints nothing,
/// and must start no thread. A deadlock is possible where another thread of this process held a lock: it ends at the deadline.
Watched runWatched(const std::function<std::string()> &work, Clock::time_point deadline,
                   const std::atomic<bool> *cancel);

} // namespace yaglom::runtime::tune
