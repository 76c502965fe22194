// Runs the work items of a launch on as many threads as the caller asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace yaglom::runtime {

/// Runs the items [begin, end) one after the other on the calling thread.
using ItemRange = std::function<void(int64_t begin, int64_t end)>;

/// Threads that a launch uses when its caller does not say: one for each core that this process may use.
int defaultThreads();

/// Calls `body` on disjoint ranges that make up [0, items), on at most `threads` threads (0: defaultThreads()), the
/// calling one among them, and never on more than TBB allows this process; returns when all are done. What was written before is seen by the bodies, and what they
/// wrote is seen afterwards. An exception of a body reaches the caller. Several threads may call this at a time.
/// No thread is started before the first call that asks for more than one.
void parallelFor(int64_t items, int threads, const ItemRange &body);

} // namespace yaglom::runtime
