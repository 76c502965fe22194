// When the members of a warp's collective instruction are together; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Block.h"

#include <fmt/format.h>

#include <bit>

namespace yaglom::emulator {

/// For an instruction with a member mask in `slot`. False when living members have not arrived and may still come: the lanes
/// wait. When nobody else of the warp can run, that is a finding, and the instruction goes on with those who are there.
inline bool collectiveReady(Warp &warp, const Op &op, uint32_t mask, uint32_t slot, uint32_t &members) {
  const uint32_t *words = warp.words(slot);
  const unsigned first = std::countr_zero(mask);
  members = words[first];
  warp.requireValid(op, mask, warp.validity[slot], "the member mask");
  const uint32_t missing = members & warp.alive & ~mask;
  if (missing && !warp.forced) {
    warp.retry = true;
    return false;
  }
  bool same = true;
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    same &= words[std::countr_zero(rest)] == members;
  if (missing)
    warp.block.report(FindingKind::DivergentCollective, op, warp.block.threadOf(warp, std::countr_zero(missing)),
                      fmt::format("lanes 0x{:08x} of the member mask 0x{:08x} do not come", missing, members));
  else if (!same)
    warp.block.report(FindingKind::DivergentCollective, op, warp.block.threadOf(warp, first),
                      "the lanes have different member masks");
  else if (mask & ~members)
    warp.block.report(FindingKind::DivergentCollective, op,
                      warp.block.threadOf(warp, std::countr_zero(mask & ~members)),
                      fmt::format("lanes 0x{:08x} are not in the member mask 0x{:08x}", mask & ~members, members));
  return true;
}

/// For a .aligned instruction: all 32 lanes of the warp execute it together. False when living ones have not arrived and may
/// still come: the lanes wait.
inline bool wholeWarpReady(Warp &warp, const Op &op, uint32_t mask) {
  if (mask == kAllLanes)
    return true;
  if (mask != warp.alive && !warp.forced) {
    warp.retry = true;
    return false;
  }
  warp.block.report(FindingKind::DivergentCollective, op, warp.block.threadOf(warp, std::countr_zero(mask)),
                    fmt::format("only lanes 0x{:08x} of the warp are here", mask));
  return true;
}

} // namespace yaglom::emulator
