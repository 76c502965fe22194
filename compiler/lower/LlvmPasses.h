// A list of LLVM's passes over a module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace yaglom::compiler {

/// Runs `passes`, in the syntax of opt, and what `more` adds after them. The Error names a pass that this LLVM does not know: a
/// bug of ours.
llvm::Error runPasses(llvm::Module &module, llvm::TargetMachine &machine, llvm::StringRef passes,
                      llvm::function_ref<void(llvm::ModulePassManager &)> more = {});

} // namespace yaglom::compiler
