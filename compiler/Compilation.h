// One compilation: the module as it goes through the stages, and code for the target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "compiler/targets/cpu/Machine.h"
#include "compiler/targets/nvgpu/Device.h"
#include "compiler/tile/ScanToTiles.h"
#include "compiler/tile/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace yaglom::compiler {

/// One compilation: a context of its own, so that compilations in several threads share nothing.
class Compilation {
public:
  Compilation(const Instance &instance, const CompileOptions &options, const Linkage *linkage = nullptr);

  void emit();
  /// Of tiles, states and sums.
  mlir::FloatType element();
  Result<void> run(llvm::function_ref<void(mlir::OpPassManager &)> build, const char *stage);
  Result<void> lower(Stage until);
  Result<void> differentiate(Keeps keeps = Keeps::Nothing);
  Result<void> tile();
  void markStored(mlir::func::FuncOp function, llvm::ArrayRef<std::string> operands);
  Result<std::unique_ptr<llvm::Module>> toLlvm(const cpu::Machine &machine);
  Result<std::unique_ptr<llvm::Module>> toGpuLlvm(const nvgpu::Device &device);
  Result<Code> generate(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, int64_t &scratchBytes);
  Result<Code> generateObject(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, int64_t &scratchBytes);
  Result<Code> generatePtx(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, const std::string &architecture);
  std::string prefix() const { return linkage ? linkage->prefix : std::string(); }
  Result<std::string> emitCode(Stage stage);
  std::string print();
  Error internal(const char *stage);

  const Instance &instance;
  const CompileOptions &options;
  const Linkage *const linkage; ///< null: code for this process
  Schedule schedule;
  mlir::MLIRContext context;
  mlir::ScopedDiagnosticHandler handler;
  std::string messages;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::LLVMContext llvmContext;
};

} // namespace yaglom::compiler
