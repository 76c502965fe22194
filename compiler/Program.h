// What the compiler hands to the runtime: the entry points of one attention and how to call them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "yaglom/compile.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace yaglom::compiler {

/// One compiled function. It is serial, allocates nothing, and works on one item: one (batch, head) of an attention, or
/// one head of a draw. `arguments` is an array of 64-bit words:
///   [0] rows of the query side (tokens, or rows of a draw)   [1] rows of the key side
///   [2] position of the first row, from 1 (`pos`)            [3] `len`
///   [4] part: which segment of the key side                  [5] number of parts      [6], [7] reserved
///   then two words for each operand: its address, and the distance of two rows in elements.
/// Rows of an operand are dense. `scratch` has scratchBytes bytes, 64-byte aligned.
struct Entry {
  using Function = void (*)(const int64_t *arguments, void *scratch);
  static constexpr int kHeaderWords = 8;
  Function function = nullptr;
  std::vector<std::string> operands; ///< tensor names: inputs, outputs, parameters, draws
};

/// The compiled form of one attention: one forward function, and one function for each draw of a sampler.
struct Program {
  Entry forward;             ///< operands: inputs as declared, "O", then parameters and draws that it reads
  std::vector<Entry> draws;  ///< one for each Instance::draws: noise, sampler parameters, then what it writes
  std::vector<Entry> losses; ///< one for each Instance::losses: noise, sampler parameters, then "loss.NAME" (one row of 1)
  int64_t scratchBytes = 0;
  double multiplyAddsPerQuery = 0; ///< necessary work (limit.md section 2) that one query row adds
  double multiplyAddsPerKey = 0;
  std::shared_ptr<void> code; ///< owns the machine code
};

/// Compiles for the host. The Error is ours (a bug, with a reproducer) or names an unsupported target.
Result<std::shared_ptr<const Program>> build(const Instance &instance, const CompileOptions &options);

/// The program as text after a stage (everything but Stage::Ast, which the front end prints).
Result<std::string> emitText(const Instance &instance, Stage stage, const CompileOptions &options);

} // namespace yaglom::compiler
