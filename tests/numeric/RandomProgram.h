// Random specs that check: maps of nested contractions, pointwise functions, reductions, stacks, positions, options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/numeric/CpuCase.h"

#include <cstdint>
#include <string>

namespace yaglom::tests {

/// A spec with the attention "a", and sizes to run it at.
struct RandomProgram {
  std::string text;
  int64_t d = 1, e = 1, chunk = 0;
  DType dtype = DType::f64;
  Sizes sizes;
};

/// The program of a seed: the same on every machine.
RandomProgram randomProgram(uint64_t seed);

} // namespace yaglom::tests
