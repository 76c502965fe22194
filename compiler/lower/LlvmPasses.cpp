// The analyses that passes ask for, registered once for all of them.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/LlvmPasses.h"

#include "llvm/Passes/PassBuilder.h"

namespace yaglom::compiler {

llvm::Error runPasses(llvm::Module &module, llvm::TargetMachine &machine, llvm::StringRef passes,
                      llvm::function_ref<void(llvm::ModulePassManager &)> more) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager manager;
  if (llvm::Error error = builder.parsePassPipeline(manager, passes))
    return error;
  if (more)
    more(manager);
  manager.run(module, modules);
  return llvm::Error::success();
}

} // namespace yaglom::compiler
