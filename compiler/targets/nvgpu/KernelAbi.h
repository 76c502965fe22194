// The parameters of a GPU kernel, by which compiler and runtime meet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace yaglom::compiler::nvgpu {

/// A kernel takes 64-bit words and nothing else. Block i of its one-dimensional grid works on part i % parts of item i / parts:
/// that many rows after those of the parts before it. Item i is batch i / heads, head i % heads. Addresses are those of
/// item 0, and of its part 0.
struct KernelAbi {
  enum Word : int {
    QueryRows, ///< as the words of compiler::Entry
    KeyRows,
    Position,
    Length,
    Begin,
    StateIn, ///< address or 0, of item 0
    StateOut,
    StateBytes, ///< from one item's states to the next
    Heads,
    Scratch,      ///< address of scratch memory, 256-byte aligned
    ScratchBytes, ///< of one block
    Parts,        ///< of an item
    PartRows,     ///< of the query side, of a part
    PartBytes,    ///< from one part's state to the next
    Keep,         ///< address or 0: state i is that before row i KeepRows, written as the rows go by
    KeepRows,
    KeepCount, ///< states of an item that are kept
    KeepBytes, ///< from one of them to the next
    kHeaderWords,
  };
  static constexpr int64_t kSizes = 5;
  /// Then for each operand: address, and the distances of two batches, heads, rows and columns, in elements.
  static constexpr int64_t kOperandWords = 5;
  static constexpr int64_t words(int64_t operands) { return kHeaderWords + kOperandWords * operands; }

  /// The dynamic shared memory of a block.
  static constexpr const char *kShared = "yaglom_shared";
  static constexpr int kSharedSpace = 3, kGlobalSpace = 1;
  /// Attributes of a lowered function: bytes of dynamic shared memory, and of scratch a block.
  static constexpr const char *kSharedBytes = "phi.shared_bytes", *kScratchBytes = "phi.scratch_bytes";
};

} // namespace yaglom::compiler::nvgpu
