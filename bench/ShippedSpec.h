// The specs of examples/specs, for benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/yaglom.h"

#include <string>

namespace yaglom::bench {

/// A spec by its file name without the ending.
inline Spec shippedSpec(const std::string &name) {
  return Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + name + ".phi").value();
}

} // namespace yaglom::bench
