// What the environment asks to be told of compilations and of compiled code: YAGLOM_DUMP and YAGLOM_PROFILE.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace yaglom {

/// $YAGLOM_DUMP: the folder that the IR after every stage goes to; nothing when it is unset or empty.
std::optional<std::string> dumpFolder();

/// $YAGLOM_PROFILE: which tools see machine code by the names of its functions.
struct Profile {
  bool perf = false;    ///< /tmp/perf-PID.map, which `perf report` reads
  bool jitdump = false; ///< the code too, for `perf inject --jit` and `perf annotate`
  bool gdb = false;     ///< by GDB's interface for JIT compilers

  /// A list with commas; what is no such tool is a warning.
  static Profile ofEnvironment();
  /// Whether code has a table of the lines of the spec.
  bool needsLines() const { return jitdump || gdb; }
};

} // namespace yaglom
