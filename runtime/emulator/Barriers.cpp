// Barriers of a block: who has arrived, who waits, what a completed one orders.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Block.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::emulator {
namespace {

constexpr uint8_t kArriveOnly = 1; ///< Op::mode of bar.arrive

} // namespace

/// The same value in all lanes, below `limit`.
uint32_t Block::barrierNumber(Warp &warp, const Op &op, uint32_t mask, uint32_t slot, const char *what,
                              uint32_t limit) {
  warp.requireValid(op, mask, warp.validity[slot], what);
  const uint32_t *values = warp.words(slot);
  const uint32_t value = values[std::countr_zero(mask)];
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    if (values[std::countr_zero(rest)] != value)
      report(FindingKind::BarrierMismatch, op, threadOf(warp, std::countr_zero(rest)),
             fmt::format("{} differs between the lanes of a warp", what));
  if (value >= limit) {
    report(FindingKind::BarrierMismatch, op, threadOf(warp, std::countr_zero(mask)),
           fmt::format("{} is {}; less than {} is expected", what, value, limit));
    stopped = true;
  }
  return value;
}

void Block::arrive(Warp &warp, const Op &op, uint32_t mask) {
  if (op.aligned && mask != warp.alive)
    report(FindingKind::DivergentCollective, op, threadOf(warp, std::countr_zero(mask)),
           fmt::format("{} of the warp's {} living lanes are at this barrier", std::popcount(mask),
                       std::popcount(warp.alive)));
  const uint32_t id = barrierNumber(warp, op, mask, op.slots[0], "the barrier's number", 16);
  const uint32_t count = op.count ? barrierNumber(warp, op, mask, op.slots[1], "the barrier's thread count", 1025) : 0;
  if (stopped)
    return;
  Barrier &barrier = barriers[id];
  if (barrier.op >= 0 && barrier.expected != count) {
    report(
        FindingKind::BarrierMismatch, op, threadOf(warp, std::countr_zero(mask)),
        fmt::format("barrier {} is awaited with another thread count at line {}", id, program.info[barrier.op].line));
    stopped = true;
    return;
  }
  if (count % kLanes != 0) {
    report(FindingKind::BarrierMismatch, op, threadOf(warp, std::countr_zero(mask)),
           fmt::format("thread count {} is no multiple of 32", count));
    stopped = true;
    return;
  }
  barrier.op = static_cast<int32_t>(op.index);
  barrier.expected = count;
  // The arrival count grows by the warp size, whatever lanes a last, partial warp has (PTX ISA, barrier.cta).
  barrier.arrived += op.aligned || mask == warp.alive ? kLanes : std::popcount(mask);
  if (barrier.joint.empty())
    barrier.joint.assign(clocks.warps, 0);
  for (unsigned other = 0; other < clocks.warps; ++other)
    barrier.joint[other] = std::max(barrier.joint[other], clocks.seen[std::size_t{warp.number} * clocks.warps + other]);
  barrier.joint[warp.number] = std::max(barrier.joint[warp.number], clocks.own[warp.number]);
  if (op.mode == kArriveOnly) {
    barrier.members.push_back(warp.number);
  } else {
    barrier.lanes[warp.number] |= mask;
    warp.atBarrier |= mask;
  }
  if (count && barrier.arrived >= count)
    release(barrier);
}

/// Lets everyone go who waits; what any participant did before is ordered before what those who waited do next.
void Block::release(Barrier &barrier) {
  ++result.barriers;
  for (unsigned number = 0; number < warps.size(); ++number) {
    const bool arrivedOnly = std::find(barrier.members.begin(), barrier.members.end(), number) != barrier.members.end();
    if (barrier.lanes[number]) {
      warps[number]->atBarrier &= ~barrier.lanes[number];
      for (unsigned other = 0; other < clocks.warps; ++other) {
        uint32_t &seen = clocks.seen[std::size_t{number} * clocks.warps + other];
        seen = std::max(seen, barrier.joint[other]);
      }
    }
    if (barrier.lanes[number] || arrivedOnly)
      ++clocks.own[number];
    barrier.lanes[number] = 0;
  }
  barrier.arrived = barrier.expected = 0;
  barrier.members.clear();
  barrier.joint.clear();
  barrier.op = -1;
}

/// Barriers of all threads: exited threads no longer hold one up (PTX ISA, exit).
void Block::checkBarriers() {
  for (Barrier &barrier : barriers) {
    if (barrier.op < 0 || barrier.expected)
      continue;
    bool all = true;
    for (unsigned number = 0; number < warps.size(); ++number) {
      const bool arrivedOnly =
          std::find(barrier.members.begin(), barrier.members.end(), number) != barrier.members.end();
      all &= arrivedOnly || (warps[number]->alive & ~barrier.lanes[number]) == 0;
    }
    if (all)
      release(barrier);
  }
}

/// No thread can go on: the barriers that are waited for will never be complete.
void Block::reportStuck() {
  for (unsigned id = 0; id < barriers.size(); ++id) {
    const Barrier &barrier = barriers[id];
    uint32_t waiting = 0;
    int32_t first = -1;
    for (unsigned number = 0; number < warps.size(); ++number) {
      waiting += std::popcount(barrier.lanes[number]);
      if (first < 0 && barrier.lanes[number])
        first = static_cast<int32_t>(number * kLanes + std::countr_zero(barrier.lanes[number]));
    }
    if (first < 0)
      continue;
    uint32_t living = 0;
    for (const auto &warp : warps)
      living += std::popcount(warp->alive);
    report(FindingKind::BarrierMismatch, program.ops[barrier.op], static_cast<uint32_t>(first),
           barrier.expected
               ? fmt::format("{} threads wait at barrier {} for {}; nobody else comes", waiting, id, barrier.expected)
               : fmt::format("{} of {} living threads wait at barrier {}; nobody else comes", waiting, living, id));
  }
}

} // namespace yaglom::emulator
