// How a warp's memory request is split by the hardware: wavefronts of shared memory, sectors of global memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace yaglom::emulator {

struct Transactions {
  uint64_t issued = 0;
  uint64_t minimal = 0;
};

/// Wavefronts of a shared memory request: 32 banks of 4 bytes; an access of 8 bytes is served by half warps, one of 16 bytes by
/// quarter warps, so that each phase moves at most 128 bytes; a phase takes as many wavefronts as its fullest bank holds
/// distinct words. Minimal is one wavefront a phase that has an active lane.
Transactions countWavefronts(const uint64_t *addresses, uint32_t mask, unsigned bytes);

/// Sectors of 32 bytes that a global request touches, and the fewest that could hold as many bytes as its lanes ask for.
Transactions countSectors(const uint64_t *addresses, uint32_t mask, unsigned bytes);

} // namespace yaglom::emulator
