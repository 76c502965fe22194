// The names that functions of the host have in object files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace yaglom::compiler {

/// "yaglom:performer:forward": what a debugger or a profiler shows. Loaders find functions by Entry::symbol alone.
inline std::string hostSymbol(const std::string &attention, const std::string &function) {
  return "yaglom:" + attention + ":" + function;
}

} // namespace yaglom::compiler
