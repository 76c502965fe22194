// One block of a launch: its warps, memories, barriers, findings and counters; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Memory.h"
#include "runtime/emulator/Report.h"
#include "runtime/emulator/Warp.h"

#include <map>

namespace yaglom::emulator {

/// A finding before its text is made: merged by kind and operation.
struct RawFinding {
  FindingKind kind = FindingKind::Trap;
  uint32_t op = 0;
  uint32_t thread = 0; ///< in the block
  std::string detail;
  std::string buffer;
  int64_t offset = 0;
  uint64_t address = 0;
  uint64_t count = 1;
};

/// What is left of a block when it has run.
struct BlockResult {
  uint64_t index = 0;
  std::vector<RawFinding> findings; ///< in the order of their first occurrence
  std::vector<InstructionCounters> ops;
  std::vector<RegionTraffic> traffic;
  std::map<uint32_t, MatrixCounters> matrices; ///< by operation
  uint64_t threadInstructions = 0;
  uint64_t barriers = 0;
  Footprint footprint;
};

class Block {
public:
  Block(const LaunchState &launch, uint64_t index);

  /// Runs the block to its end, or to a mistake that ends it.
  BlockResult run();

  const LaunchState &launch;
  const Program &program;
  std::array<uint32_t, 3> position{};
  BlockResult result;

  // Memory, for the handlers. Each call is one lane's; a mistake is reported and leaves the access out.

  /// Reads; returns which bytes are valid, a bit each. After a mistake `into` is zero and valid, so that one mistake is one
  /// finding.
  uint64_t load(Warp &warp, const Op &op, unsigned lane, syntax::Space space, uint64_t address, unsigned bytes,
                void *into);
  void store(Warp &warp, const Op &op, unsigned lane, syntax::Space space, uint64_t address, unsigned bytes,
             const void *from, uint64_t valid);
  /// Where an access goes, checked for bounds, alignment and permission; the caller reads and writes, and calls touch().
  Place locate(Warp &warp, const Op &op, unsigned lane, syntax::Space space, uint64_t address, unsigned bytes,
               bool write);
  /// Records an access for races, footprints and traffic.
  void touch(Warp &warp, const Op &op, unsigned lane, const Place &place, unsigned bytes, bool write, bool atomic,
             bool sameValue);
  uint64_t validBytes(const Place &place, unsigned bytes);
  void setValidBytes(const Place &place, unsigned bytes, uint64_t valid);

  /// Counts a request of `mask`'s lanes.
  void count(const Op &op, syntax::Space space, const uint64_t *addresses, uint32_t mask, unsigned bytes);

  /// Makes a cp.async's copy visible.
  void land(Warp &warp, const PendingCopy &copy);
  SharedMemory shared;

  RawFinding &report(FindingKind kind, const Op &op, unsigned thread, const std::string &detail);
  uint32_t threadOf(const Warp &warp, unsigned lane) const { return warp.number * kLanes + lane; }
  std::string threadText(uint32_t thread) const;

private:
  struct Barrier {
    uint32_t arrived = 0;          ///< threads
    uint32_t expected = 0;         ///< threads, or 0 for all
    std::vector<uint32_t> lanes;   ///< that wait, by warp
    std::vector<uint32_t> members; ///< warps, a clock's copy each
    std::vector<uint32_t> joint;   ///< what those that arrived know
    int32_t op = -1;
  };

  void runWarp(Warp &warp);
  uint32_t select(Warp &warp);
  void execute(Warp &warp, const Op &op, uint32_t mask);
  void wait(Warp &warp, const Op &op, uint32_t mask);
  void branch(Warp &warp, const Op &op, uint32_t mask);
  void branchIndex(Warp &warp, const Op &op, uint32_t mask);
  void leave(Warp &warp, uint32_t mask);
  void arrive(Warp &warp, const Op &op, uint32_t mask);
  void release(Barrier &barrier);
  void checkBarriers();
  uint32_t barrierNumber(Warp &warp, const Op &op, uint32_t mask, uint32_t slot, const char *what, uint32_t limit);
  void reportStuck();
  void shuffleOrder(std::vector<unsigned> &order);
  Page &pageOf(uint32_t region, uint64_t page);
  void touchGlobal(const Accessor &by, const Op &op, const Place &place, unsigned bytes, Warp &warp);
  void reportRace(Warp &warp, const Op &op, unsigned lane, const Place &place, const Conflict &conflict, bool write);
  void misplaced(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes, const std::string &buffer,
                 int64_t offset, uint64_t size);
  Place locateGlobal(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes, bool write);

  std::vector<std::unique_ptr<Warp>> warps;
  LocalMemory local;
  Clocks clocks;
  std::array<Barrier, 16> barriers;
  std::map<std::pair<FindingKind, uint32_t>, std::size_t> findingIndex;
  uint64_t budget = 0;
  uint64_t random = 0;
  bool stopped = false;

  struct CachedPage {
    uint64_t key = ~uint64_t{0};
    Page *page = nullptr;
  };
  std::array<CachedPage, 64> cachedPages;
};

/// The name of a region, or of a state space, for findings.
std::string_view toText(syntax::Space space);

} // namespace yaglom::emulator
