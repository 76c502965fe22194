// Renames on the LLVM module, before code generation: the object file then needs no tool of its own.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Linkage.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Module.h"

namespace yaglom::compiler {

/// Draws and the run ahead through the keys: what nobody calls any more.
static void removeUnused(llvm::Module &module) {
  for (bool removed = true; removed;) {
    removed = false;
    for (llvm::Function &function : llvm::make_early_inc_range(module))
      if ((function.hasLocalLinkage() || function.isDeclaration()) && function.use_empty()) {
        function.eraseFromParent();
        removed = true;
      }
  }
}

void applyLinkage(llvm::Module &module, llvm::ArrayRef<std::pair<Entry *, std::string>> entries,
                  const Linkage &linkage) {
  llvm::SmallPtrSet<llvm::Function *, 4> kept;
  for (const auto &[entry, name] : entries)
    kept.insert(module.getFunction(name));
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    if (kept.contains(&function)) {
      function.setName(linkage.prefix + function.getName());
      if (module.getTargetTriple().isX86()) // an application's library need not export them
        function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    } else {
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
    }
  }
  removeUnused(module);
  llvm::LLVMContext &context = module.getContext();
  module.getOrInsertNamedMetadata("llvm.ident")
      ->addOperand(llvm::MDNode::get(context, llvm::MDString::get(context, linkage.writer)));
}

} // namespace yaglom::compiler
