// From lowered functions to machine code: MLIR's conversions, LLVM's optimiser, an object file in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/cpu/Machine.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class MemoryBuffer;
class Module;
} // namespace llvm

namespace yaglom::compiler::cpu {

/// Converts every op of `module` to the LLVM dialect.
mlir::LogicalResult convertToLlvmDialect(mlir::ModuleOp module);

/// The optimised LLVM module for `machine`, its functions exported; null when the translation failed.
std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context,
                                              const Machine &machine);

Result<std::string> emitAssembly(llvm::Module &module, const Machine &machine);
Result<std::unique_ptr<llvm::MemoryBuffer>> emitObject(llvm::Module &module, const Machine &machine);

} // namespace yaglom::compiler::cpu
