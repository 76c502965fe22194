// From lowered kernels to PTX text, in this process and without a CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/nvgpu/Device.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace yaglom::compiler::nvgpu {

/// After phi-tiles-to-gpu: every function of the module becomes one of the LLVM dialect. Indices have 32 bits.
mlir::LogicalResult convertToLlvmDialect(mlir::ModuleOp module);

/// LLVM IR with every function a kernel, optimised; null when something could not be translated, which is a bug of ours.
std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context, const Device &device);

/// The Error names an operation that this code generator cannot select: it would end the process.
Result<std::string> emitPtx(llvm::Module &module, const Device &device);

} // namespace yaglom::compiler::nvgpu
