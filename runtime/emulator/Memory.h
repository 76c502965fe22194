// The memories that a block sees, byte for byte checked: global, shared, local and parameters; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Program.h"
#include "runtime/emulator/Races.h"

#include <bit>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

namespace yaglom::emulator {

/// One bit a byte.
class ByteSet {
public:
  explicit ByteSet(std::size_t bytes = 0) : bits((bytes + 63) / 64) {}

  /// The bits of [at, at + count), lowest first; count is at most 32.
  uint64_t get(std::size_t at, unsigned count) const {
    uint64_t value = bits[at / 64] >> at % 64;
    if (at % 64 + count > 64)
      value |= bits[at / 64 + 1] << (64 - at % 64);
    return value & maskOf(count);
  }
  void put(std::size_t at, unsigned count, uint64_t value) {
    const uint64_t mask = maskOf(count);
    bits[at / 64] = (bits[at / 64] & ~(mask << at % 64)) | value << at % 64;
    if (at % 64 + count > 64)
      bits[at / 64 + 1] = (bits[at / 64 + 1] & ~(mask >> (64 - at % 64))) | value >> (64 - at % 64);
  }
  static uint64_t maskOf(unsigned count) { return (uint64_t{1} << count) - 1; }

  std::vector<uint64_t> bits;
};

/// A buffer of the launch or a variable of the module.
struct Region {
  std::string name;
  std::byte *data = nullptr;
  uint64_t bytes = 0;
  bool writable = true;
  bool initialised = true;
};

inline constexpr unsigned kPageBytes = 1024;

/// What a block did to a page of a region.
struct Page {
  explicit Page(bool races, bool exactReaders) : table(races ? kPageBytes : 0, exactReaders) {}
  ByteSet read{kPageBytes};
  ByteSet written{kPageBytes};
  ByteSet poisoned{kPageBytes}; ///< written, but with values that nothing wrote
  ByteSet atomics{kPageBytes};  ///< bytes that only atomics have touched so far
  RaceTable table;
};

/// Pages by region and number, as index << 40 | page.
using Footprint = std::unordered_map<uint64_t, std::unique_ptr<Page>>;

struct RegionTraffic {
  uint64_t bytesRead = 0;
  uint64_t bytesWritten = 0;
  uint64_t sectors = 0;
  uint64_t minimalSectors = 0;
};

/// Bytes of a launch that blocks before this one wrote, by region; only regions that are not initialised have one.
using WrittenBytes = std::vector<std::unique_ptr<ByteSet>>;

/// The parts of a launch that all its blocks share.
struct LaunchState {
  const Program *program = nullptr;
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint64_t sharedBytes = 0;
  uint64_t dynamicSharedBytes = 0;
  std::vector<std::byte> parameters;
  std::vector<Region> regions; ///< the module's variables, then the buffers
  Options options;
  const WrittenBytes *written = nullptr; ///< by blocks that ended before; where blocks run in order

  uint32_t threadsPerBlock() const { return block[0] * block[1] * block[2]; }
};

/// What a memory access touches: host memory, and where it lies for the findings.
struct Place {
  std::byte *data = nullptr; ///< null after a mistake
  syntax::Space space = syntax::Space::Global;
  uint32_t region = 0;
  uint64_t offset = 0; ///< in the region, shared or the thread's local memory
};

class SharedMemory {
public:
  SharedMemory(uint64_t bytes, bool races, bool exactReaders)
      : data(bytes, std::byte{0xff}), valid(bytes + 64), table(races ? bytes : 0, exactReaders) {}
  std::vector<std::byte> data;
  ByteSet valid;
  RaceTable table;
};

class LocalMemory {
public:
  LocalMemory(uint64_t bytes, unsigned threads)
      : bytes(bytes), data(bytes * threads, std::byte{0xff}), valid(bytes * threads + 64) {}
  uint64_t bytes; ///< a thread
  std::vector<std::byte> data;
  ByteSet valid;
};

/// The space that a generic address lies in, and the address within it.
inline syntax::Space spaceOfGeneric(uint64_t address, uint64_t &within) {
  using syntax::Space;
  within = address % kWindowBytes;
  switch (address / kWindowBytes) {
  case kSharedWindow / kWindowBytes:
    return Space::Shared;
  case kLocalWindow / kWindowBytes:
    return Space::Local;
  case kParamWindow / kWindowBytes:
    return Space::Param;
  default:
    within = address;
    return Space::Global;
  }
}

} // namespace yaglom::emulator
