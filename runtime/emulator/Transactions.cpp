// How a warp's memory request is split by the hardware: wavefronts of shared memory, sectors of global memory.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Transactions.h"

#include <algorithm>
#include <array>
#include <bit>

namespace yaglom::emulator {
namespace {

/// The most distinct words that one bank serves in a phase; at most 32 words are asked for.
unsigned fullestBank(const uint64_t *addresses, uint32_t mask, unsigned words) {
  std::array<uint64_t, 32> first; // word that a bank serves; read where `used` says so
  uint32_t used = 0;
  std::array<uint64_t, 32> more; // further distinct words of any bank
  unsigned count = 0;
  std::array<uint8_t, 32> load{};
  unsigned fullest = 1;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const uint64_t base = addresses[std::countr_zero(rest)] / 4;
    for (uint64_t word = base; word < base + words; ++word) {
      const unsigned bank = word % 32;
      if (!(used >> bank & 1)) {
        used |= 1u << bank;
        first[bank] = word;
        load[bank] = 1;
      } else if (first[bank] != word && std::find(more.begin(), more.begin() + count, word) == more.begin() + count) {
        more[count++] = word;
        fullest = std::max<unsigned>(fullest, ++load[bank]);
      }
    }
  }
  return fullest;
}

} // namespace

Transactions countWavefronts(const uint64_t *addresses, uint32_t mask, unsigned bytes) {
  Transactions made;
  const unsigned words = std::max(1u, bytes / 4);
  const unsigned lanes = 32 / std::min(words, 32u); // a phase
  const uint32_t phase = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
  for (unsigned begin = 0; begin < 32; begin += lanes) {
    const uint32_t active = mask & phase << begin;
    if (!active)
      continue;
    made.issued += fullestBank(addresses, active, words);
    ++made.minimal;
  }
  return made;
}

Transactions countSectors(const uint64_t *addresses, uint32_t mask, unsigned bytes) {
  std::array<uint64_t, 64> seen;
  unsigned count = 0;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const uint64_t address = addresses[std::countr_zero(rest)];
    for (uint64_t sector = address / 32; sector <= (address + bytes - 1) / 32; ++sector) {
      if (count && seen[count - 1] == sector)
        continue;
      if (std::find(seen.begin(), seen.begin() + count, sector) == seen.begin() + count)
        seen[count++] = sector;
    }
  }
  const uint64_t asked = uint64_t{static_cast<unsigned>(std::popcount(mask))} * bytes;
  return {count, std::min<uint64_t>(count, (asked + 31) / 32)};
}

} // namespace yaglom::emulator
