// Code that another program's linker takes: names that no other export has, and nothing beside the entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <utility>

namespace llvm {
class Module;
}

namespace yaglom::compiler {

/// Renames the entries of `module` by the linkage and removes what they do not need. The entries' own names stay.
void applyLinkage(llvm::Module &module, llvm::ArrayRef<std::pair<Entry *, std::string>> entries,
                  const Linkage &linkage);

} // namespace yaglom::compiler
