// The stages in their order, and what comes after the last one.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Compilation.h"

#include "compiler/Linkage.h"
#include "compiler/Locations.h"
#include "compiler/Pipeline.h"
#include "compiler/Reproducer.h"
#include "compiler/Symbols.h"
#include "compiler/formula/Emit.h"
#include "compiler/targets/cpu/Codegen.h"
#include "compiler/targets/nvgpu/Codegen.h"
#include "compiler/targets/nvgpu/KernelAbi.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "support/Debugging.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <fmt/core.h>

using namespace mlir;

namespace yaglom::compiler {

/// "performer.forward.host.f32.d64-e64-m64"
static std::string programName(const Instance &instance, const CompileOptions &options, llvm::StringRef program) {
  std::string name = fmt::format("{}.{}.{}.{}.", instance.attention->id.name, program.str(), options.target.name(),
                                 toText(options.dtype));
  for (const auto &[dim, value] : instance.dims)
    name += fmt::format("{}{}{}", name.back() == '.' ? "" : "-", dim, value);
  return name;
}

/// Of code of the processor: debuggers see no other.
static Lines linesOfEnvironment(const CompileOptions &options) {
  return !gpuArchitecture(options.target.name()) && Profile::ofEnvironment().needsLines() ? Lines::Table : Lines::None;
}

Compilation::Compilation(const Instance &instance, const CompileOptions &options, llvm::StringRef program,
                         const Linkage *linkage, std::optional<Lines> lines)
    : instance(instance), options(options), linkage(linkage), lines(lines ? *lines : linesOfEnvironment(options)),
      context(MLIRContext::Threading::DISABLED),
      handler(&context,
              [this](Diagnostic &diagnostic) {
                const std::string place = placeText(diagnostic.getLocation());
                messages += fmt::format("{}{}{}\n", place, place.empty() ? "" : ": ", diagnostic.str());
                return success();
              }),
      dump(programName(instance, options, program)) {
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

Error Compilation::internal(llvm::StringRef stage, llvm::StringRef reproducer, llvm::StringRef extension) {
  const std::string &attention = instance.attention->id.name;
  const Result<std::string> file = writeReproducer(attention + "-" + stage.str(), extension, reproducer);
  const char *const replay = extension == "mlir" ? ", which yaglom-opt --run-reproducer replays" : "";
  const std::string what =
      file ? fmt::format("please report it with the file '{}'{}", *file, replay)
           : fmt::format("please report it with this text ({})\n{}", file.error().what(), reproducer.str());
  return Error(fmt::format("internal error in stage '{}' of attention '{}': {}{}{}", stage.str(), attention, messages,
                           messages.empty() ? "" : "  ", what));
}

Result<void> Compilation::run(llvm::function_ref<void(OpPassManager &)> build, const char *stage) {
  PassManager passes(&context, ModuleOp::getOperationName());
#ifdef NDEBUG
  passes.enableVerifier(false);
#endif
  build(passes);
  const OwningOpRef<ModuleOp> before = module->clone();
  if (failed(passes.run(*module)))
    return internal(stage, reproducerText(*before, passes));
  if (dump.isOn())
    dump.write(stage, "mlir", printModule(*module, /*locations=*/true));
  return {};
}

Result<void> Compilation::lower(Stage until) {
  emit();
  if (dump.isOn())
    dump.write("formula", "mlir", printModule(*module, /*locations=*/true));
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

std::string Compilation::print() { return printModule(*module, lines == Lines::Comments); }

Result<std::unique_ptr<llvm::Module>>
Compilation::toLlvm(llvm::function_ref<void(OpPassManager &)> build, const char *stage,
                    void (*buildDialect)(OpPassManager &),
                    llvm::function_ref<std::unique_ptr<llvm::Module>()> translate) {
  if (auto done = run(build, stage); !done)
    return done.error();
  auto toDialect = [&](OpPassManager &passes) {
    buildDialect(passes);
    if (lines != Lines::None)
      passes.addPass(LLVM::createDIScopeForLLVMFuncOpPass(
          {lines == Lines::Table ? LLVM::DIEmissionKind::LineTablesOnly : LLVM::DIEmissionKind::DebugDirectivesOnly}));
  };
  if (auto done = run(toDialect, "llvm-dialect"); !done)
    return done.error();
  std::unique_ptr<llvm::Module> result = translate();
  if (!result)
    return internal("llvm", reproducerText(*module, PassManager(&context, ModuleOp::getOperationName())));
  if (dump.isOn())
    dump.write("llvm", "ll", printModule(*llvm::CloneModule(*result), lines != Lines::None));
  return result;
}

Result<std::unique_ptr<llvm::Module>> Compilation::toLlvm(const cpu::Machine &machine) {
  return toLlvm([&](OpPassManager &passes) { buildCpu(passes, options.target.name(), options.schedule); }, "cpu",
                cpu::buildLlvmDialect, [&] { return cpu::translateToLlvm(*module, llvmContext, machine); });
}

Result<std::unique_ptr<llvm::Module>> Compilation::toGpuLlvm(const nvgpu::Device &device) {
  auto build = [&](OpPassManager &passes) {
    buildGpu(passes, device.architecture, options.dtype == DType::f64 ? "f32" : toText(options.dtype),
             options.schedule);
  };
  return toLlvm(build, "gpu", nvgpu::buildLlvmDialect,
                [&] { return nvgpu::translateToLlvm(*module, llvmContext, device); });
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
  for (auto &[entry, name] : entries) {
    entry->symbol = linkage ? prefix() + name : hostSymbol(instance.attention->id.name, name);
    if (!linkage)
      (*llvmModule)->getFunction(name)->setName(entry->symbol);
  }
  if (dump.isOn()) // of a copy: code generation rewrites the module
    if (auto text = cpu::emitAssembly(*llvm::CloneModule(**llvmModule), *machine))
      dump.write("asm", "s", *text);
  auto object = cpu::emitObject(**llvmModule, *machine);
  if (!object)
    return object.error();
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
  auto ptx = emitPtx(**llvmModule, *device);
  if (!ptx)
    return ptx.error();
  dump.write("ptx", "ptx", *ptx);
  for (auto &[entry, name] : entries) {
    Operation *function = module->lookupSymbol(name);
    if (!function)
      return internal("ptx", printModule(**llvmModule, /*locations=*/false), "ll");
    auto bytes = [&](llvm::StringRef attr) { return function->getAttrOfType<IntegerAttr>(attr).getInt(); };
    entry->gpu = {nullptr, prefix() + name, device->threads, bytes(nvgpu::KernelAbi::kSharedBytes),
                  bytes(nvgpu::KernelAbi::kScratchBytes)};
  }
  return Code{architecture, std::move(*ptx), nullptr};
}

Result<std::string> Compilation::emitPtx(llvm::Module &llvmModule, const nvgpu::Device &device) {
  auto ptx = nvgpu::emitPtx(llvmModule, device);
  if (ptx)
    return ptx;
  messages += std::string(ptx.error().what()) + "\n";
  return internal("ptx", printModule(llvmModule, /*locations=*/false), "ll");
}

/// LLVM IR, or what the target's code generator makes of it.
Result<std::string> Compilation::emitCode(Stage stage) {
  auto architecture = gpuArchitecture(options.target.name());
  if (stage == (architecture ? Stage::Asm : Stage::Ptx))
    return Error(fmt::format("target '{}' has no stage '{}'", options.target.name(), architecture ? "asm" : "ptx"));
  const bool comments = lines == Lines::Comments;
  if (!architecture) {
    Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
    auto llvmModule = machine ? toLlvm(*machine) : machine.error();
    if (!llvmModule)
      return llvmModule.error();
    if (stage == Stage::Llvm)
      return printModule(**llvmModule, comments);
    auto text = cpu::emitAssembly(**llvmModule, *machine);
    if (!text)
      return text;
    const std::string annotated = comments ? placesAsComments(*text, "#") : *text;
    dump.write("asm", "s", annotated);
    return annotated;
  }
  Result<nvgpu::Device> device = nvgpu::Device::named(*architecture);
  if (device)
    *device = device->with(options.schedule);
  auto llvmModule = device ? toGpuLlvm(*device) : device.error();
  if (!llvmModule)
    return llvmModule.error();
  if (stage == Stage::Llvm)
    return printModule(**llvmModule, comments);
  auto text = emitPtx(**llvmModule, *device);
  if (!text)
    return text;
  const std::string annotated = comments ? placesAsComments(*text, "//") : *text;
  dump.write("ptx", "ptx", annotated);
  return annotated;
}

} // namespace yaglom::compiler
