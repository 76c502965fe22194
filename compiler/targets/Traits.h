// What the targets' cost models know of an attention: how much there is to do for a token, and what a schedule changes of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace yaglom::compiler {

struct Traits {
  int64_t elementBytes = 4;
  int64_t chunk = 32, granule = 16; ///< the compiler's own
  double fixedWork = 0;             ///< multiply-adds of a token that no schedule changes
  double workPerChunkToken = 0;     ///< those that each token of the chunk adds: of the triangle
  double stateElements = 0;         ///< read and written once a chunk
  double rowElements = 0;           ///< of one token: inputs, features, output
  bool isCausal = false;
  bool isSplit = false;    ///< a sequence is dealt to several threads
  int64_t mostChunk = 128; ///< 0: the chunk is given
};

} // namespace yaglom::compiler
