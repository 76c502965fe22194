// Tools outside of this process that see machine code by the names of its functions: perf and gdb.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Debugging.h"

namespace llvm::orc {
class LLJIT;
}

namespace yaglom::compiler::cpu {

/// Before code is added to `jit`: whatever it loads is told to the tools of `profile`. What fails is a warning.
void addObservers(llvm::orc::LLJIT &jit, const Profile &profile);

} // namespace yaglom::compiler::cpu
