// What a run of a kernel reports: findings, each at its line of PTX, and counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom::emulator {

enum class FindingKind : uint8_t {
  OutOfBounds,         ///< an access outside every buffer, or outside its state space
  Misaligned,          ///< an address that is no multiple of the access's size
  ReadOnly,            ///< a write to a buffer that is not writable
  Uninitialised,       ///< a value that nothing wrote reaches memory, an address or a branch
  SharedRace,          ///< two threads access shared memory without a barrier between them
  GlobalRace,          ///< the same for global memory, of one block or of two
  DivergentCollective, ///< a collective instruction that not all of its lanes reach
  BarrierMismatch,     ///< a barrier that not all threads reach
  Budget,              ///< the instruction budget is used up
  Trap,                ///< trap
};

/// "out of bounds", "shared race", ...
std::string_view toText(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::Trap;
  uint32_t line = 0;       ///< of the PTX text
  std::string instruction; ///< as written
  std::array<uint32_t, 3> block{};
  std::array<uint32_t, 3> thread{}; ///< the first one
  std::string detail;               ///< what happened: address, buffer and offset, the other thread and its line
  std::string buffer;               ///< its name, "shared", "local" or empty
  int64_t offset = 0;               ///< byte in the buffer; may lie outside
  uint64_t address = 0;
  uint64_t count = 1; ///< findings of this kind at this line

  /// One line: "line 12: out of bounds: st.global.f32 [%rd1], %f1: ...".
  std::string text() const;
};

/// Counts of one instruction of the text, or of all of a form. A request is one memory instruction of one warp.
struct InstructionCounters {
  uint64_t issues = 0;     ///< by warps
  uint64_t wavefronts = 0; ///< of shared memory
  uint64_t idealWavefronts = 0;
  uint64_t sectors = 0;        ///< of 32 bytes of global memory
  uint64_t minimalSectors = 0; ///< for the bytes asked
  uint64_t bytes = 0;          ///< asked by all lanes, shared and global

  void add(const InstructionCounters &other);
  bool operator==(const InstructionCounters &) const = default;
};

struct FormCounters : InstructionCounters {
  std::string form; ///< "ld.global.v4.f32"
};

struct LineCounters : InstructionCounters {
  uint32_t line = 0;
  std::string instruction;
};

struct MatrixCounters {
  std::string form; ///< "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
  uint64_t issued = 0;
  uint64_t zeroA = 0; ///< had an all-zero A
  uint64_t zeroB = 0;
};

struct BufferCounters {
  std::string name;
  uint64_t bytesRead = 0; ///< by all lanes
  uint64_t bytesWritten = 0;
  uint64_t uniqueRead = 0; ///< bytes that were read at all; needs Options::checks
  uint64_t uniqueWritten = 0;
  uint64_t sectors = 0;
  uint64_t minimalSectors = 0;
};

struct Counters {
  uint64_t blocks = 0;
  uint64_t warpInstructions = 0;
  uint64_t threadInstructions = 0;
  uint64_t barriers = 0;           ///< that a block passed
  std::vector<FormCounters> forms; ///< by form
  std::vector<LineCounters> lines; ///< by line; the ones that were issued
  std::vector<MatrixCounters> matrices;
  std::vector<BufferCounters> buffers; ///< in the order of the launch

  /// The sum over all forms that begin with `prefix`.
  InstructionCounters sum(std::string_view prefix) const;
};

struct Report {
  std::vector<Finding> findings; ///< by block, merged by kind and line
  uint64_t findingCount = 0;     ///< before merging, with those beyond Options::maximalFindings
  Counters counters;

  bool clean() const { return findingCount == 0; }
  /// The findings, a line each.
  std::string findingsText() const;
  /// Tables of the counters, with the worst lines.
  std::string countersText() const;
  /// All as one JSON object.
  std::string json() const;
};

} // namespace yaglom::emulator
