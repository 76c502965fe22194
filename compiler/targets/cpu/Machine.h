// What the CPU target knows of a processor: vector width and how many registers a tile may take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"
#include "yaglom/schedule.h"

#include <cstdint>
#include <string>

namespace yaglom::compiler::cpu {

struct Machine {
  std::string cpu;              ///< LLVM's name: "znver4", "x86-64-v3"
  std::string features;         ///< LLVM's feature string
  int64_t vectorBytes = 32;     ///< of the widest register
  int64_t accumulators = 12;    ///< registers that a contraction's tile may fill; more would spill
  int64_t tileVectors = 2;      ///< vectors in a row of a tile
  int64_t pointwiseVectors = 4; ///< of a tile without contractions: hides latencies, leaves registers to constants
  int64_t productSteps = 4;     ///< of a contraction in one turn of its loop: counting takes slots that products need
  int64_t prefetchChunks = 1;   ///< how far ahead rows are fetched into the cache; 0: not at all
  int64_t registers = 16;       ///< of vectors

  /// The same processor with small tiles: short code before fast code.
  Machine compact() const {
    Machine machine = *this;
    machine.accumulators = machine.pointwiseVectors = machine.tileVectors;
    machine.productSteps = 1;
    return machine;
  }
  /// The same processor, used as `schedule` says.
  Machine with(const yaglom::Schedule &schedule) const;
  int64_t lanes(int64_t elementBytes) const { return vectorBytes / elementBytes; }

  /// The processor that this runs on.
  static Machine host();
  /// "host", "x86-64-v3" or "x86-64-v4".
  static Result<Machine> named(const std::string &target);
};

} // namespace yaglom::compiler::cpu
