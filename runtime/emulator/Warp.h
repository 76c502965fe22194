// The registers and program counters of 32 threads; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Program.h"
#include "runtime/emulator/Races.h"

#include <array>
#include <cstring>
#include <memory>
#include <vector>

namespace yaglom::emulator {

class Block;

/// A copy that cp.async has issued and that has not landed.
struct PendingCopy {
  uint8_t lane = 0;
  uint8_t bytes = 0;
  uint32_t op = 0;
  uint32_t group = 0; ///< how many groups its lane had committed before
  uint64_t destination = 0;
  uint64_t valid = 0; ///< one bit a byte
  std::array<std::byte, 16> data{};
};

class Warp {
public:
  Warp(Block &block, unsigned number);

  uint32_t *words(uint32_t slot) { return file.get() + std::size_t{slot} * kLanes; }
  uint64_t *wides(uint32_t slot) { return reinterpret_cast<uint64_t *>(words(slot)); }
  uint64_t lane64(uint32_t slot, unsigned lane, bool wide) { return wide ? wides(slot)[lane] : words(slot)[lane]; }
  void setValid(uint32_t slot, uint32_t mask, uint32_t valid) {
    validity[slot] = (validity[slot] & ~mask) | (valid & mask);
  }
  void setPredicate(uint32_t index, uint32_t mask, uint32_t value, uint32_t valid) {
    predicates[index] = (predicates[index] & ~mask) | (value & mask);
    predicateValidity[index] = (predicateValidity[index] & ~mask) | (valid & mask);
  }
  void moveTo(uint32_t lanes, uint32_t target);
  /// Reports `what` of the lanes in `mask` as uninitialised, unless it is valid.
  void requireValid(const Op &op, uint32_t mask, uint32_t valid, const char *what);

  Block &block;
  unsigned number;
  uint32_t alive = 0;
  uint32_t waiting = 0; ///< lanes at a collective that others of its members have not reached
  uint32_t atBarrier = 0;
  bool uniform = true; ///< all living lanes are at `pc`
  bool forced = false; ///< no other lane of the warp can run
  uint32_t active = 0; ///< lanes that issue the current instruction, before its guard
  uint32_t pc = 0;
  std::array<uint32_t, kLanes> pcs{};
  uint32_t serial = 0; ///< instructions issued
  bool retry = false;  ///< set by a collective that must wait
  uint32_t carry = 0;  ///< CC.CF, a bit a lane
  uint32_t carryValid = 0;
  std::vector<uint32_t> validity; ///< a bit a lane, by slot
  std::vector<uint32_t> predicates;
  std::vector<uint32_t> predicateValidity;
  WarpSyncs syncs;
  std::vector<PendingCopy> copies;       ///< in the order of issue
  std::array<uint32_t, kLanes> groups{}; ///< committed, by lane

private:
  struct Free {
    void operator()(uint32_t *memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::unique_ptr<uint32_t[], Free> file;
};

} // namespace yaglom::emulator
