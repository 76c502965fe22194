// The passes of LLVM that pay for code which is vectors already; no vectoriser, no unrolling.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/Codegen.h"

#include "compiler/Passes.h"
#include "compiler/lower/LlvmPasses.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#ifdef YAGLOM_ASAN
#include "llvm/Transforms/Instrumentation/AddressSanitizer.h"
#endif

namespace yaglom::compiler::cpu {

void buildLlvmDialect(mlir::OpPassManager &passes) {
  passes.addPass(mlir::createSCFToControlFlowPass());
  mlir::ConvertVectorToLLVMPassOptions vector;
  vector.reassociateFPReductions = true;
  passes.addPass(mlir::createConvertVectorToLLVMPass(vector));
  passes.addPass(compiler::createToLlvmDialect());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
}

static std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const Machine &machine, std::string &error) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getProcessTriple());
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // The loader puts code and constants side by side and reaches this process's functions by stubs: addresses relative to
  // the instruction do, and cost no instruction of their own.
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, machine.cpu, machine.features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
}

/// What O2 does to code like ours, which is loops over vectors in one function already: the whole of O2 takes 1.6 times as
/// long to compile and its code runs no faster (docs/rationale/0008-cpu-clusters.md).
static constexpr const char *kPasses =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "early-cse<memssa>,instcombine<no-verify-fixpoint>,adce)";

static llvm::Error optimize(llvm::Module &module, llvm::TargetMachine &machine) {
#ifdef YAGLOM_ASAN
  // Without this a kernel that writes past a buffer passes silently.
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.addFnAttr(llvm::Attribute::SanitizeAddress);
  return runPasses(module, machine, kPasses, [](llvm::ModulePassManager &passes) {
    passes.addPass(llvm::AddressSanitizerPass({}, false, false, llvm::AsanDtorKind::None, llvm::AsanCtorKind::None));
  });
#else
  return runPasses(module, machine, kPasses);
#endif
}

std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context,
                                              const Machine &machine) {
  mlir::registerBuiltinDialectTranslation(*module.getContext());
  mlir::registerLLVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> result = mlir::translateModuleToLLVMIR(module, context, "yaglom");
  std::string error;
  std::unique_ptr<llvm::TargetMachine> target = makeTargetMachine(machine, error);
  if (!result || !target)
    return nullptr;
  result->setDataLayout(target->createDataLayout());
  result->setTargetTriple(target->getTargetTriple());
  for (llvm::Function &function : *result) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.cpu);
    function.addFnAttr("target-features", machine.features);
    function.addFnAttr("prefer-vector-width", std::to_string(8 * machine.vectorBytes));
  }
  if (llvm::Error failure = optimize(*result, *target)) {
    llvm::consumeError(std::move(failure)); // a name of a pass that this LLVM does not know: a bug of ours
    return nullptr;
  }
  return result;
}

static Result<llvm::SmallVector<char, 0>> generate(llvm::Module &module, const Machine &machine,
                                                   llvm::CodeGenFileType type) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> target = makeTargetMachine(machine, error);
  if (!target)
    return Error("cannot generate code for '" + machine.cpu + "': " + error);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  if (target->addPassesToEmitFile(passes, os, nullptr, type))
    return Error("the target for '" + machine.cpu + "' cannot emit this kind of file");
  passes.run(module);
  return bytes;
}

Result<std::string> emitAssembly(llvm::Module &module, const Machine &machine) {
  auto bytes = generate(module, machine, llvm::CodeGenFileType::AssemblyFile);
  if (!bytes)
    return bytes.error();
  return std::string(bytes->begin(), bytes->end());
}

Result<std::unique_ptr<llvm::MemoryBuffer>> emitObject(llvm::Module &module, const Machine &machine) {
  auto bytes = generate(module, machine, llvm::CodeGenFileType::ObjectFile);
  if (!bytes)
    return bytes.error();
  return std::unique_ptr<llvm::MemoryBuffer>(
      std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(*bytes), "yaglom", false));
}

} // namespace yaglom::compiler::cpu
