// What memory instructions share: addresses of the lanes, modifiers without effect; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Block.h"
#include "runtime/emulator/Decoder.h"

namespace yaglom::emulator {

/// Op::flags of memory instructions: what the registers of base, second base and values are.
inline constexpr uint8_t kWideBase = 1, kWideBase2 = 2, kWideValue = 4, kSignExtend = 8;

/// slot + displacement in each lane. Lanes of `mask` whose address is not initialised are reported; the others are returned.
inline uint32_t addressesOf(Warp &warp, const Op &op, uint32_t mask, uint32_t slot, bool wide, int64_t displacement,
                            uint64_t *into) {
  const auto offset = static_cast<uint64_t>(displacement);
  if (wide) {
    const uint64_t *base = warp.wides(slot);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      into[lane] = base[lane] + offset;
  } else {
    const uint32_t *base = warp.words(slot);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      into[lane] = static_cast<uint32_t>(base[lane] + offset);
  }
  const uint32_t valid = warp.validity[slot];
  if (mask & ~valid)
    warp.requireValid(op, mask, valid, "the address");
  return mask & valid;
}

/// Memory order, scope and cache hints: the emulator's memory is stronger than all of them. Returns how many operands a cache
/// policy adds.
inline std::size_t takeMemoryHints(Decoder &decoder) {
  decoder.takeOneOf({"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"});
  decoder.takeOneOf({"cta", "cluster", "gpu", "sys"});
  decoder.takeOneOf({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  decoder.take("nc");
  decoder.takeOneOf(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  decoder.takeOneOf({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  const bool policy = decoder.take("L2::cache_hint");
  decoder.takeOneOf({"L2::64B", "L2::128B", "L2::256B"});
  return policy ? 1 : 0;
}

} // namespace yaglom::emulator
