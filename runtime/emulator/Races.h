// Which accesses of a block's threads to the same bytes no barrier orders; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace yaglom::emulator {

/// What each warp knows of the others' progress. A warp's clock grows at each barrier it passes; `seen[a][b]` is the last
/// clock of b that a barrier has made a wait for. With barriers of all threads only, all clocks are equal.
struct Clocks {
  explicit Clocks(unsigned warps) : warps(warps), seen(std::size_t{warps} * warps, 0), own(warps, 1) {}

  bool ordered(unsigned before, uint32_t clock, unsigned after) const {
    return clock <= seen[std::size_t{after} * warps + before];
  }

  unsigned warps;
  std::vector<uint32_t> seen;
  std::vector<uint32_t> own;
};

/// bar.warp.sync within one warp: which lanes have waited for one another, and when.
struct WarpSyncs {
  void add(uint32_t serial, uint32_t mask, uint32_t alive);
  /// Lanes a and b met in a bar.warp.sync after instruction `serial`.
  bool ordered(unsigned a, unsigned b, uint32_t serial) const;

  struct Sync {
    uint32_t serial = 0;
    uint32_t mask = 0;
  };
  uint32_t lastFull = 0;
  std::vector<Sync> partial; ///< since the last full one
};

/// Who accesses.
struct Accessor {
  const Clocks *clocks = nullptr;
  const WarpSyncs *syncs = nullptr;
  uint32_t op = 0;
  uint32_t serial = 0; ///< of the instruction among those of its warp
  uint8_t warp = 0;
  uint8_t lane = 0;
  bool write = false;
  bool atomic = false;
  bool sameValue = false; ///< a write that changes nothing
};

/// The access that conflicts with a later one.
struct Conflict {
  bool found = false;
  bool write = false;
  uint32_t op = 0;
  uint8_t warp = 0;
  uint8_t lane = 0;
};

/// The last accesses to each word, in the sense of FastTrack (Flanagan, Freund 2009) with warps as threads and lanes beside; a
/// word that is accessed by parts is followed byte by byte.
class RaceTable {
public:
  explicit RaceTable(std::size_t bytes = 0, bool exactReaders = false)
      : words((bytes + 3) / 4), exactReaders(exactReaders) {}

  /// Records an access to [offset, offset + bytes); returns a conflict with an earlier one, if there is any.
  Conflict access(const Accessor &by, std::size_t offset, unsigned bytes);

  struct Who {
    uint32_t op = 0;
    bool any = false;
  };
  /// The last operation that wrote (or read) the word at `offset`.
  Who writer(std::size_t offset) const;
  Who reader(std::size_t offset) const;

private:
  struct Cell {
    uint32_t writeClock = 0;
    uint32_t writeSerial = 0;
    uint32_t writeInfo = 0; ///< op, lane, warp, flags
    uint32_t readClock = 0;
    uint32_t readSerial = 0;
    uint32_t readInfo = 0;
    uint32_t readWarps = 0;
    uint32_t readLanes = 0; ///< of the only warp in readWarps
  };

  void accessCell(const Accessor &by, Cell &cell, std::size_t id, Conflict &conflict);
  bool conflictsWithWrite(const Accessor &by, const Cell &cell) const;
  void conflictWithReads(const Accessor &by, const Cell &cell, std::size_t id, Conflict &conflict) const;
  void recordRead(const Accessor &by, Cell &cell, std::size_t id);
  uint32_t &readClockOf(std::size_t id, const Accessor &by);
  const Cell &cellAt(std::size_t offset) const;

  std::vector<Cell> words;
  std::vector<std::array<Cell, 4>> bytes; ///< of the words accessed by parts
  std::vector<uint32_t> readClocks;       ///< cells x warps; with exactReaders only
  bool exactReaders;
};

} // namespace yaglom::emulator
