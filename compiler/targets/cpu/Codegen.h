// From lowered functions to machine code: MLIR's conversions, LLVM's optimiser, an object file in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/cpu/Machine.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class MemoryBuffer;
class Module;
} // namespace llvm

namespace yaglom::compiler::cpu {

/// Afterwards every op is of the LLVM dialect.
void buildLlvmDialect(mlir::OpPassManager &passes);

/// The optimised LLVM module for `machine`, its functions exported; null when the translation failed.
std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context,
                                              const Machine &machine);

Result<std::string> emitAssembly(llvm::Module &module, const Machine &machine);
Result<std::unique_ptr<llvm::MemoryBuffer>> emitObject(llvm::Module &module, const Machine &machine);

} // namespace yaglom::compiler::cpu
