// Joins the results of blocks in the order of their numbers: races between blocks, findings, counters; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Block.h"

#include <map>
#include <mutex>
#include <unordered_map>

namespace yaglom::emulator {

class Merger {
public:
  Merger(const LaunchState &launch, bool inOrder);

  /// Takes the result of a block; may be called by several threads, with the blocks in any order.
  void add(BlockResult result);
  /// Two blocks touched the same bytes, and not both to read them: what they computed may depend on who was first.
  bool blocksConflict() const { return conflict; }
  /// For LaunchState::written.
  const WrittenBytes &writtenBytes() const { return written; }
  /// When all blocks have been added.
  Report finish();

private:
  struct Last {
    uint32_t block = 0;
    uint32_t op = 0;
  };
  struct MergedPage {
    ByteSet read{kPageBytes}, written{kPageBytes}, atomics{kPageBytes};
    std::vector<Last> readers, writers; ///< by word; of writable regions
  };

  void merge(BlockResult result);
  void mergePage(uint64_t key, const Page &page, BlockResult &result);
  void reportConflict(uint64_t key, const Page &page, const MergedPage &before, std::size_t at, BlockResult &result);
  void keep(RawFinding finding, uint64_t block);
  Finding makeFinding(const RawFinding &raw, uint64_t block) const;
  void countUnique(std::vector<BufferCounters> &buffers) const;

  const LaunchState &launch;
  std::mutex mutex;
  uint64_t next = 0;
  std::map<uint64_t, BlockResult> pending;
  bool conflict = false;
  WrittenBytes written;
  std::unordered_map<uint64_t, MergedPage> pages;
  std::vector<InstructionCounters> ops;
  std::vector<RegionTraffic> traffic;
  std::map<uint32_t, MatrixCounters> matrices;
  std::map<std::pair<FindingKind, uint32_t>, std::size_t> findingIndex;
  Report report;
};

} // namespace yaglom::emulator
