// The one test unit that includes the JIT.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/JitHelper.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/ObjectCache.h"
#include "llvm/ExecutionEngine/Orc/CompileUtils.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>
#include <stdexcept>

namespace yaglom::test {
namespace {

constexpr const char *kToLLVM =
    "convert-scf-to-cf,convert-vector-to-llvm,convert-ub-to-llvm,convert-math-to-llvm,finalize-memref-to-llvm,convert-"
    "arith-to-llvm,"
    "convert-index-to-llvm,convert-cf-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
    "reconcile-unrealized-casts";

template <typename T>
T unwrap(llvm::Expected<T> value) {
  if (!value)
    throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    mlir::registerAllPasses();
  });
}

/// Sees every object that the compiler makes.
struct ObjectListener : llvm::ObjectCache {
  std::vector<std::string> undefined;

  void notifyObjectCompiled(const llvm::Module *, llvm::MemoryBufferRef buffer) override {
    auto object = unwrap(llvm::object::ObjectFile::createObjectFile(buffer));
    for (const llvm::object::SymbolRef &symbol : object->symbols())
      if (unwrap(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined)
        if (llvm::StringRef name = unwrap(symbol.getName()); !name.empty())
          undefined.push_back(name.str());
  }
  std::unique_ptr<llvm::MemoryBuffer> getObject(const llvm::Module *) override { return nullptr; }
};

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

/// `text` as a module of LLVM's, together with its context.
llvm::orc::ThreadSafeModule lower(const std::string &text, const std::function<void(mlir::Operation *)> &transform,
                                  llvm::TargetMachine &machine) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllToLLVMIRTranslations(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string messages;
  context.allowUnregisteredDialects();
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; });

  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    throw std::runtime_error("parse: " + messages);
  transform(*module);
  mlir::PassManager passes(&context);
  if (failed(mlir::parsePassPipeline(kToLLVM, passes)) || failed(passes.run(*module)))
    throw std::runtime_error("lower: " + messages);

  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  auto llvmModule = mlir::translateModuleToLLVMIR(*module, *llvmContext);
  if (!llvmModule)
    throw std::runtime_error("translate: " + messages);
  llvmModule->setDataLayout(machine.createDataLayout());
  llvmModule->setTargetTriple(machine.getTargetTriple());
  for (llvm::Function &function : *llvmModule) {
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
  }
  optimize(*llvmModule, machine);
  return {std::move(llvmModule), std::move(llvmContext)};
}

} // namespace

struct JitModule::State {
  ObjectListener listener;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

JitModule::JitModule(const std::string &text, const std::function<void(mlir::Operation *)> &transform)
    : state(std::make_unique<State>()) {
  initialize();
  auto builder = unwrap(llvm::orc::JITTargetMachineBuilder::detectHost());
  auto machine = unwrap(builder.createTargetMachine());
  auto compiler = [this](llvm::orc::JITTargetMachineBuilder target)
      -> llvm::Expected<std::unique_ptr<llvm::orc::IRCompileLayer::IRCompiler>> {
    auto own = target.createTargetMachine();
    if (!own)
      return own.takeError();
    return std::make_unique<llvm::orc::TMOwningSimpleCompiler>(std::move(*own), &state->listener);
  };
  state->jit = unwrap(
      llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).setCompileFunctionCreator(compiler).create());
  if (auto error = state->jit->addIRModule(lower(text, transform, *machine)))
    throw std::runtime_error(llvm::toString(std::move(error)));
}

JitModule::~JitModule() = default;
JitModule::JitModule(JitModule &&) noexcept = default;

void *JitModule::lookup(const std::string &name) const { return unwrap(state->jit->lookup(name)).toPtr<void *>(); }

const std::vector<std::string> &JitModule::undefinedSymbols() const { return state->listener.undefined; }

} // namespace yaglom::test
