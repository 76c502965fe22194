// The NVPTX backend of LLVM behind our own list of passes.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/Codegen.h"

#include "compiler/Passes.h"
#include "compiler/lower/LlvmPasses.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Pass.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace yaglom::compiler::nvgpu {

void buildLlvmDialect(mlir::OpPassManager &passes) {
  constexpr unsigned kIndexBits = 32;
  passes.addPass(mlir::createSCFToControlFlowPass());
  passes.addPass(compiler::createToLlvmDialect({kIndexBits}));
}

static std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const Device &device, std::string &error) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  // No features: the lowest PTX version that knows the architecture, so that old drivers take it.
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, device.architecture, "", llvm::TargetOptions(), std::nullopt, std::nullopt,
                                  llvm::CodeGenOptLevel::Default));
}

/// Loops are cut by us, and addresses come in parts; what is left is to find the memory that each points to. The backend joins
/// neighbouring accesses itself.
static constexpr const char *kPasses =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,infer-address-spaces,"
    "loop-mssa(loop-rotate),separate-const-offset-from-gep,early-cse<memssa>,infer-alignment,scalarize-masked-mem-"
    "intrin)";

std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context, const Device &device) {
  mlir::registerBuiltinDialectTranslation(*module.getContext());
  mlir::registerLLVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> result = mlir::translateModuleToLLVMIR(module, context, "yaglom");
  std::string error;
  std::unique_ptr<llvm::TargetMachine> target = makeTargetMachine(device, error);
  if (!result || !target)
    return nullptr;
  result->setDataLayout(target->createDataLayout());
  result->setTargetTriple(target->getTargetTriple());
  for (llvm::Function &function : *result) {
    if (function.isDeclaration())
      continue;
    function.setCallingConv(llvm::CallingConv::PTX_Kernel);
    function.addFnAttr("nvvm.reqntid", std::to_string(device.threads));
    function.addFnAttr("nvvm.minctasm", "1");
  }
  if (llvm::Error failure = runPasses(*result, *target, kPasses)) {
    llvm::consumeError(std::move(failure)); // a name of a pass that this LLVM does not know: a bug of ours
    return nullptr;
  }
  return result;
}

/// What instruction selection knows for float32 and float64; anything else would make LLVM end the process.
static bool isSelectable(const llvm::IntrinsicInst &call) {
  switch (call.getIntrinsicID()) {
  case llvm::Intrinsic::sin:
  case llvm::Intrinsic::cos:
    return call.hasApproxFunc();
  case llvm::Intrinsic::exp2:
  case llvm::Intrinsic::fma:
  case llvm::Intrinsic::fmuladd:
  case llvm::Intrinsic::fabs:
  case llvm::Intrinsic::copysign:
  case llvm::Intrinsic::floor:
  case llvm::Intrinsic::ceil:
  case llvm::Intrinsic::trunc:
  case llvm::Intrinsic::rint:
  case llvm::Intrinsic::roundeven:
  case llvm::Intrinsic::sqrt:
  case llvm::Intrinsic::minnum:
  case llvm::Intrinsic::maxnum:
  case llvm::Intrinsic::minimum:
  case llvm::Intrinsic::maximum:
  case llvm::Intrinsic::abs:
  case llvm::Intrinsic::smin:
  case llvm::Intrinsic::smax:
  case llvm::Intrinsic::umin:
  case llvm::Intrinsic::umax:
  case llvm::Intrinsic::ctlz:
  case llvm::Intrinsic::cttz:
  case llvm::Intrinsic::ctpop:
  case llvm::Intrinsic::fshl:
  case llvm::Intrinsic::fshr:
  case llvm::Intrinsic::is_fpclass:
  case llvm::Intrinsic::assume:
  case llvm::Intrinsic::memcpy:
  case llvm::Intrinsic::memset:
    return true;
  default:
    return call.getCalledFunction()->getName().starts_with("llvm.nvvm.");
  }
}

namespace {

/// The backend's passes without those that find common parts of addresses: ours have none left (Indices.cpp), and looking for
/// them takes a tenth of the time, tidying up after each another sixteenth.
class CodegenPasses : public llvm::legacy::PassManager {
public:
  void add(llvm::Pass *pass) override {
    const llvm::StringRef name = pass->getPassName();
    const bool isSearch = name == "Straight line strength reduction" || name == "Nary reassociation";
    if (isSearch || (followsSearch && name == "Early CSE"))
      delete pass; // a pass manager owns what it is given
    else
      llvm::legacy::PassManager::add(pass);
    followsSearch = isSearch;
  }

private:
  bool followsSearch = false;
};

} // namespace

Result<std::string> emitPtx(llvm::Module &module, const Device &device) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (!call)
        continue;
      auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(call);
      if (!intrinsic || !isSelectable(*intrinsic)) {
        llvm::Function *callee = call->getCalledFunction();
        return Error("'" + (callee ? callee->getName().str() : "an address") +
                     "' is called on the GPU, which cannot do that");
      }
    }
  std::string error;
  std::unique_ptr<llvm::TargetMachine> target = makeTargetMachine(device, error);
  if (!target)
    return Error("cannot generate code for '" + device.architecture + "': " + error);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  CodegenPasses passes;
  if (target->addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return Error("the target for '" + device.architecture + "' cannot emit PTX");
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

} // namespace yaglom::compiler::nvgpu
