// One compilation: the module as it goes through the stages, and code for the target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Dump.h"
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

/// Whether LLVM's code has a table of the lines of the spec.
enum class Lines {
  None,
  Comments, ///< in text alone
  Table,    ///< in object files, for debuggers
};

/// One compilation: a context of its own, so that compilations in several threads share nothing.
class Compilation {
public:
  /// `program` is what is compiled of the attention, "forward": it names files. `lines`: else what YAGLOM_PROFILE needs.
  Compilation(const Instance &instance, const CompileOptions &options, llvm::StringRef program,
              const Linkage *linkage = nullptr, std::optional<Lines> lines = std::nullopt);

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
  /// nvgpu::emitPtx(), whose Error is a bug of ours.
  Result<std::string> emitPtx(llvm::Module &llvmModule, const nvgpu::Device &device);
  /// The Error of a bug of ours. It names the file that `reproducer`, what the stage was given, is written to: "mlir" with
  /// passes, which yaglom-opt replays, or "ll".
  Error internal(llvm::StringRef stage, llvm::StringRef reproducer, llvm::StringRef extension = "mlir");

  const Instance &instance;
  const CompileOptions &options;
  const Linkage *const linkage; ///< null: code for this process
  const Lines lines;
  Schedule schedule;
  mlir::MLIRContext context;
  mlir::ScopedDiagnosticHandler handler;
  std::string messages;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::LLVMContext llvmContext;
  Dump dump;

private:
  /// From the target's loops to LLVM IR; `translate` does the last step.
  Result<std::unique_ptr<llvm::Module>> toLlvm(llvm::function_ref<void(mlir::OpPassManager &)> build, const char *stage,
                                               void (*buildDialect)(mlir::OpPassManager &),
                                               llvm::function_ref<std::unique_ptr<llvm::Module>()> translate);
};

} // namespace yaglom::compiler
