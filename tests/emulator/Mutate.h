// Mutants of a PTX text: one instruction deleted, exchanged or changed. For proving that tests would notice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace yaglom::emulator::test {

struct Mutant {
  std::string text;        ///< the mutated PTX; the line numbers are those of the original
  std::string description; ///< "line 12: deleted: add.s32 %r1, %r2, 1;"
  uint32_t line = 0;
};

/// A mutant of `text`, decided by `seed` alone: an instruction line is deleted, two neighbours change places, a number is changed
/// by one or by a bit, or an operation is exchanged for a related one (add and sub, and and or, lt and le, min and max, ...).
/// Control flow (bra, ret, labels) and declarations stay. The mutant may do the same as the original: an or of disjoint bits
/// turned into xor, for one. A text without instructions comes back unchanged.
Mutant mutate(const std::string &text, uint64_t seed);

} // namespace yaglom::emulator::test
