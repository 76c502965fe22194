// The tensors that carry a linear attention from one piece of a sequence to the next: their names and shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"

#include <string>
#include <vector>

namespace yaglom::runtime {

/// State of one `linear` of an attention (language.md section 6).
struct LinearState {
  std::string prefix; ///< "state.", or "state.same." by its `let` where there are several, else "state.0."
  int64_t features = 0;
  int64_t width = 0;      ///< of the values
  ast::Position position; ///< of the call in its source
};

/// One for each `linear`, in source order. softmax_attention has none.
std::vector<LinearState> linearStates(const Instance &instance);

} // namespace yaglom::runtime
