// From lowered kernels to PTX text, in this process and without a CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/nvgpu/Device.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace yaglom::compiler::nvgpu {

/// Afterwards every op is of the LLVM dialect.
void buildLlvmDialect(mlir::OpPassManager &passes);

/// LLVM IR with every function a kernel, optimised; null when something could not be translated, which is a bug of ours.
std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context, const Device &device);

/// The Error names an operation that this code generator cannot select: it would end the process.
Result<std::string> emitPtx(llvm::Module &module, const Device &device);

} // namespace yaglom::compiler::nvgpu
