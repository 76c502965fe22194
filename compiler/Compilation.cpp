// The stages in their order, and what comes after the last one.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Compilation.h"

#include "compiler/Linkage.h"
#include "compiler/Pipeline.h"
#include "compiler/formula/Emit.h"
#include "compiler/targets/cpu/Codegen.h"
#include "compiler/targets/nvgpu/Codegen.h"
#include "compiler/targets/nvgpu/KernelAbi.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/core.h>

using namespace mlir;

namespace yaglom::compiler {

Compilation::Compilation(const Instance &instance, const CompileOptions &options, const Linkage *linkage)
    : instance(instance), options(options), linkage(linkage), context(MLIRContext::Threading::DISABLED),
      handler(&context, [this](Diagnostic &diagnostic) {
        messages += diagnostic.str() + "\n";
        return success();
      }) {
  context
      .loadDialect<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect,
                   scf::SCFDialect, tensor::TensorDialect, ub::UBDialect, vector::VectorDialect, phi::PhiDialect>();
  if (options.schedule.chunk)
    schedule.chunk = options.schedule.chunk;
  if (options.schedule.granule)
    schedule.granule = options.schedule.granule;
}

FloatType Compilation::element() {
  return options.dtype == DType::f64 ? FloatType(Float64Type::get(&context)) : FloatType(Float32Type::get(&context));
}

/// All functions in one module: code generation starts once.
void Compilation::emit() {
  FloatType type = element();
  module = emitAttention(context, instance, type);
  auto take = [&](OwningOpRef<ModuleOp> other, const std::string &name) {
    auto function = *other->getOps<func::FuncOp>().begin();
    function.setName(name);
    function->remove();
    module->push_back(function);
  };
  for (auto [i, draw] : llvm::enumerate(instance.draws))
    take(emitDraw(context, instance, draw, type), fmt::format("draw{}", i));
}

static std::string printLlvm(const llvm::Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, nullptr);
  return text;
}

Error Compilation::internal(const char *stage) {
  return Error(fmt::format("internal error in stage '{}' of attention '{}': please report it with this text\n{}{}",
                           stage, instance.attention->id.name, messages, module ? print() : std::string()));
}

Result<void> Compilation::run(llvm::function_ref<void(OpPassManager &)> build, const char *stage) {
  PassManager passes(&context, ModuleOp::getOperationName());
#ifdef NDEBUG
  passes.enableVerifier(false);
#endif
  build(passes);
  if (failed(passes.run(*module)))
    return internal(stage);
  return {};
}

Result<void> Compilation::lower(Stage until) {
  emit();
  if (until == Stage::Formula)
    return {};
  if (auto done = run(buildSimplify, "simplify"); !done)
    return done;
  if (auto done = run(buildScan, "scan"); !done || until == Stage::Scan)
    return done;
  return tile();
}

/// Names of the operands that a function's tile program begins with.
static std::vector<std::string> tileOperands(func::FuncOp function) {
  std::vector<std::string> names;
  if (!function)
    return names;
  auto inputs = function->getAttrOfType<IntegerAttr>(kGradientAttr);
  const unsigned count = inputs ? inputs.getInt() : function.getNumArguments();
  for (unsigned i = 0; i < count; ++i)
    names.push_back(function.getArgAttrOfType<StringAttr>(i, kNameAttr).str());
  if (inputs) {
    names.push_back("grad.O");
    for (unsigned i = 0; i < count; ++i)
      names.push_back("grad." + names[i]);
  } else {
    names.push_back("O");
  }
  return names;
}

Result<void> Compilation::tile() {
  auto find = [&](llvm::StringRef name) { return module->lookupSymbol<func::FuncOp>(name); };
  const std::vector<std::string> forward = tileOperands(find(kForward)), backward = tileOperands(find(kBackward));
  auto done = run([&](OpPassManager &passes) { buildTile(passes, schedule); }, "tile");
  if (!done)
    return done;
  markStored(find(kForward), forward);
  markStored(find("advance"), forward);
  markStored(find(kBackward), backward);
  return done;
}

/// Operands of a tile program whose elements have 16 bits in memory: the rows of the attention's inputs, of its output, and of
/// their gradients. Tiles and everything else are float32.
void Compilation::markStored(func::FuncOp function, llvm::ArrayRef<std::string> operands) {
  if (!function || sizeOf(options.dtype) >= sizeof(float))
    return;
  Type stored = options.dtype == DType::bf16 ? Type(BFloat16Type::get(&context)) : Type(Float16Type::get(&context));
  constexpr unsigned kSizes = 5;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    llvm::StringRef name = operand;
    name.consume_front("grad.");
    if (name == "O" || llvm::any_of(instance.inputs, [&](const InputInfo &input) { return input.name == name; }))
      function.setArgAttr(kSizes + i, kStoredAttr, TypeAttr::get(stored));
  }
}

/// Replaces every function of the scan level by its gradient; that of the attention takes states, unless `keeps` is Nothing.
Result<void> Compilation::differentiate(Keeps keeps) {
  if (auto done = run(buildDifferentiate, "differentiate"); !done)
    return done;
  for (auto function : llvm::make_early_inc_range(module->getOps<func::FuncOp>()))
    if (!function->hasAttr(kGradientAttr))
      function.erase();
    else if (function.getName() == kBackward && keeps != Keeps::Nothing)
      function->setAttr(kTakesStatesAttr, StringAttr::get(&context, keeps == Keeps::Segments ? "segments" : "last"));
  return {};
}

std::string Compilation::print() {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  return text;
}

Result<std::unique_ptr<llvm::Module>> Compilation::toLlvm(const cpu::Machine &machine) {
  auto build = [&](OpPassManager &passes) { buildCpu(passes, options.target.name(), options.schedule); };
  if (auto done = run(build, "cpu"); !done)
    return done.error();
  if (failed(cpu::convertToLlvmDialect(*module)))
    return internal("llvm dialect");
  std::unique_ptr<llvm::Module> result = cpu::translateToLlvm(*module, llvmContext, machine);
  if (!result)
    return internal("llvm");
  return result;
}

Result<std::unique_ptr<llvm::Module>> Compilation::toGpuLlvm(const nvgpu::Device &device) {
  auto build = [&](OpPassManager &passes) {
    buildGpu(passes, device.architecture, options.dtype == DType::f64 ? "f32" : toText(options.dtype),
             options.schedule);
  };
  if (auto done = run(build, "gpu"); !done)
    return done.error();
  if (failed(nvgpu::convertToLlvmDialect(*module)))
    return internal("llvm dialect");
  std::unique_ptr<llvm::Module> result = nvgpu::translateToLlvm(*module, llvmContext, device);
  if (!result)
    return internal("llvm");
  return result;
}

/// Code of the tile programs for the target; the entries get these names in it.
Result<Code> Compilation::generate(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, int64_t &scratchBytes) {
  if (auto architecture = gpuArchitecture(options.target.name()))
    return generatePtx(entries, *architecture);
  return generateObject(entries, scratchBytes);
}

Result<Code> Compilation::generateObject(llvm::ArrayRef<std::pair<Entry *, std::string>> entries,
                                         int64_t &scratchBytes) {
  Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
  if (!machine)
    return machine.error();
  auto llvmModule = toLlvm(*machine);
  if (!llvmModule)
    return llvmModule.error();
  auto bytes = (*module)->getAttrOfType<IntegerAttr>("phi.scratch_bytes");
  scratchBytes = bytes ? bytes.getInt() : 0;
  if (linkage)
    applyLinkage(**llvmModule, entries, *linkage);
  auto object = cpu::emitObject(**llvmModule, *machine);
  if (!object)
    return object.error();
  for (auto &[entry, name] : entries)
    entry->symbol = prefix() + name;
  return Code{"", (*object)->getBuffer().str(), nullptr};
}

Result<Code> Compilation::generatePtx(llvm::ArrayRef<std::pair<Entry *, std::string>> entries,
                                      const std::string &architecture) {
  Result<nvgpu::Device> device = nvgpu::Device::named(architecture);
  if (!device)
    return device.error();
  *device = device->with(options.schedule);
  auto llvmModule = toGpuLlvm(*device);
  if (!llvmModule)
    return llvmModule.error();
  if (linkage)
    applyLinkage(**llvmModule, entries, *linkage);
  auto ptx = nvgpu::emitPtx(**llvmModule, *device);
  if (!ptx)
    return ptx.error();
  for (auto &[entry, name] : entries) {
    Operation *function = module->lookupSymbol(name);
    if (!function)
      return internal("ptx");
    auto bytes = [&](llvm::StringRef attr) { return function->getAttrOfType<IntegerAttr>(attr).getInt(); };
    entry->gpu = {nullptr, prefix() + name, device->threads, bytes(nvgpu::KernelAbi::kSharedBytes),
                  bytes(nvgpu::KernelAbi::kScratchBytes)};
  }
  return Code{architecture, std::move(*ptx), nullptr};
}

/// LLVM IR, or what the target's code generator makes of it.
Result<std::string> Compilation::emitCode(Stage stage) {
  auto architecture = gpuArchitecture(options.target.name());
  if (stage == (architecture ? Stage::Asm : Stage::Ptx))
    return Error(fmt::format("target '{}' has no stage '{}'", options.target.name(), architecture ? "asm" : "ptx"));
  if (!architecture) {
    Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
    auto llvmModule = machine ? toLlvm(*machine) : machine.error();
    if (!llvmModule)
      return llvmModule.error();
    return stage == Stage::Llvm ? printLlvm(**llvmModule) : cpu::emitAssembly(**llvmModule, *machine);
  }
  Result<nvgpu::Device> device = nvgpu::Device::named(*architecture);
  if (device)
    *device = device->with(options.schedule);
  auto llvmModule = device ? toGpuLlvm(*device) : device.error();
  if (!llvmModule)
    return llvmModule.error();
  return stage == Stage::Llvm ? printLlvm(**llvmModule) : nvgpu::emitPtx(**llvmModule, *device);
}

} // namespace yaglom::compiler
