// build() and emitText(): an attention through all stages, its draws and losses beside it.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"

#include "compiler/Pipeline.h"
#include "compiler/Work.h"
#include "compiler/formula/Emit.h"
#include "compiler/targets/cpu/Codegen.h"
#include "compiler/targets/cpu/Jit.h"
#include "compiler/targets/nvgpu/Codegen.h"
#include "compiler/targets/nvgpu/KernelAbi.h"
#include "compiler/tile/ScanToTiles.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/core.h>

using namespace mlir;

namespace yaglom::compiler {

namespace {

/// One compilation: a context of its own, so that compilations in several threads share nothing.
class Compilation {
public:
  Compilation(const Instance &instance, const CompileOptions &options)
      : instance(instance), options(options), context(MLIRContext::Threading::DISABLED),
        handler(&context, [this](Diagnostic &diagnostic) {
          messages += diagnostic.str() + "\n";
          return success();
        }) {
    context.loadDialect<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, LLVM::LLVMDialect,
                        math::MathDialect, scf::SCFDialect, tensor::TensorDialect, ub::UBDialect, vector::VectorDialect,
                        phi::PhiDialect>();
    if (options.chunk)
      schedule.chunk = options.chunk;
  }

  void emit();
  FloatType element() {
    return options.dtype == DType::f64 ? FloatType(Float64Type::get(&context)) : FloatType(Float32Type::get(&context));
  }
  Result<void> run(llvm::function_ref<void(OpPassManager &)> build, const char *stage);
  Result<void> lower(Stage until);
  Result<void> differentiate(Keeps keeps = Keeps::Nothing);
  Result<void> tile();
  void markStored(func::FuncOp function, llvm::ArrayRef<std::string> operands);
  Result<std::unique_ptr<llvm::Module>> toLlvm(const cpu::Machine &machine);
  Result<std::unique_ptr<llvm::Module>> toGpuLlvm(const nvgpu::Device &device);
  Result<void> load(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, std::shared_ptr<void> &code,
                    int64_t &scratchBytes);
  Result<void> loadHost(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, std::shared_ptr<void> &code,
                        int64_t &scratchBytes);
  Result<void> loadGpu(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, const std::string &architecture);
  Result<std::string> emitCode(Stage stage);
  std::string print();
  void describe(Program &program);
  Error internal(const char *stage);

  const Instance &instance;
  const CompileOptions &options;
  Schedule schedule;
  MLIRContext context;
  ScopedDiagnosticHandler handler;
  std::string messages;
  OwningOpRef<ModuleOp> module;
  llvm::LLVMContext llvmContext;
};

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
  auto build = [&](OpPassManager &passes) { buildCpu(passes, options.target.name()); };
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
    buildGpu(passes, device.architecture, options.dtype == DType::f64 ? "f32" : toText(options.dtype));
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

/// Code of the tile programs for the target, behind the entries of these names.
Result<void> Compilation::load(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, std::shared_ptr<void> &code,
                               int64_t &scratchBytes) {
  if (auto architecture = gpuArchitecture(options.target.name()))
    return loadGpu(entries, *architecture);
  return loadHost(entries, code, scratchBytes);
}

Result<void> Compilation::loadHost(llvm::ArrayRef<std::pair<Entry *, std::string>> entries, std::shared_ptr<void> &code,
                                   int64_t &scratchBytes) {
  Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
  if (!machine)
    return machine.error();
  auto llvmModule = toLlvm(*machine);
  if (!llvmModule)
    return llvmModule.error();
  auto bytes = (*module)->getAttrOfType<IntegerAttr>("phi.scratch_bytes");
  scratchBytes = bytes ? bytes.getInt() : 0;
  auto object = cpu::emitObject(**llvmModule, *machine);
  if (!object)
    return object.error();
  auto loaded = cpu::LoadedCode::load(std::move(*object));
  if (!loaded)
    return loaded.error();
  for (auto &[entry, name] : entries) {
    auto address = (*loaded)->find(name);
    if (!address)
      return address.error();
    entry->function = reinterpret_cast<Entry::Function>(*address);
  }
  code = *loaded;
  return {};
}

Result<void> Compilation::loadGpu(llvm::ArrayRef<std::pair<Entry *, std::string>> entries,
                                  const std::string &architecture) {
  Result<nvgpu::Device> device = nvgpu::Device::named(architecture);
  if (!device)
    return device.error();
  auto llvmModule = toGpuLlvm(*device);
  if (!llvmModule)
    return llvmModule.error();
  auto ptx = nvgpu::emitPtx(**llvmModule, *device);
  if (!ptx)
    return ptx.error();
  auto code = std::make_shared<const GpuModule>(std::move(*ptx), architecture);
  for (auto &[entry, name] : entries) {
    Operation *function = module->lookupSymbol(name);
    if (!function)
      return internal("ptx");
    auto bytes = [&](llvm::StringRef attr) { return function->getAttrOfType<IntegerAttr>(attr).getInt(); };
    entry->gpu = {code, name, device->threads, bytes(nvgpu::KernelAbi::kSharedBytes),
                  bytes(nvgpu::KernelAbi::kScratchBytes)};
  }
  return {};
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
  auto llvmModule = device ? toGpuLlvm(*device) : device.error();
  if (!llvmModule)
    return llvmModule.error();
  return stage == Stage::Llvm ? printLlvm(**llvmModule) : nvgpu::emitPtx(**llvmModule, *device);
}

/// The operands of each function in their order, read off before lowering forgets their names.
void Compilation::describe(Program &program) {
  program.draws.resize(instance.draws.size());
  for (auto function : module->getOps<func::FuncOp>()) {
    llvm::StringRef name = function.getName();
    bool isForward = name == kForward;
    size_t index = 0;
    if (!isForward)
      name.drop_front(strlen("draw")).getAsInteger(10, index);
    Entry &entry = isForward ? program.forward : program.draws[index];
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      entry.operands.push_back(function.getArgAttrOfType<StringAttr>(i, kNameAttr).str());
    if (isForward)
      entry.operands.push_back("O");
    else
      llvm::append_range(entry.operands, instance.draws[index].names);
  }
}

/// Which kinds of attention there are.
struct Kinds {
  bool causal = false, both = false, quadratic = false;

  explicit Kinds(ModuleOp module) {
    module.lookupSymbol<func::FuncOp>(kForward).walk([&](Operation *op) {
      if (auto scan = dyn_cast<phi::ScanOp>(op))
        (scan.isCausal() ? causal : both) = true;
      quadratic |= isa<phi::SoftmaxAttentionOp>(op);
    });
  }
  Parts parts() const {
    return causal && both ? Parts::None : causal ? Parts::Prefix : both ? Parts::Whole : Parts::Independent;
  }
  Keeps keeps() const { return both ? Keeps::Last : causal && !quadratic ? Keeps::Segments : Keeps::Nothing; }
};

/// The state of all scans, and what a part of a sequence needs of it.
static void describeState(Program &program, ModuleOp module) {
  module.lookupSymbol<func::FuncOp>(kForward).walk([&](phi::ScanOp op) {
    program.stateElements += op.stateElements();
    auto where = dyn_cast<FileLineColLoc>(op.getLoc());
    if (where && op.tracksExponents()) { // the last member
      auto type = cast<RankedTensorType>(cast<TypeAttr>(op.getState().getValue().back()).getValue());
      program.logScales.push_back({{where.getLine(), where.getColumn()}, type.getNumElements()});
    }
  });
  const Kinds kinds(module);
  program.parts = kinds.parts();
  program.keeps = kinds.keeps();
  program.advance.operands = program.forward.operands;
}

} // namespace

std::optional<PreparedOperand> PreparedOperand::parse(const std::string &name) {
  llvm::StringRef text = llvm::StringRef(name).take_until([](char c) { return c == ' ' || c == ')'; });
  if (!llvm::StringRef(name).contains('('))
    return std::nullopt;
  PreparedOperand operand;
  if (!text.consume_front("component(")) {
    operand.kind = Kind::Orthogonalize;
    return operand;
  }
  operand.table = text.drop_back().str(); // the comma
  operand.alpha = llvm::StringRef(name).split(", ").second.split(')').first.str();
  return operand;
}

std::optional<std::string> gpuArchitecture(const std::string &target) {
  llvm::StringRef name = target;
  if (name == "emulated")
    name = "sm_80";
  name.consume_front("emulated:");
  return nvgpu::Device::named(name.str()) ? std::optional<std::string>(name.str()) : std::nullopt;
}

Result<std::shared_ptr<const Program>> build(const Instance &instance, const CompileOptions &options) {
  Compilation compilation(instance, options);
  if (auto done = compilation.lower(Stage::Scan); !done)
    return done.error();
  auto program = std::make_shared<Program>();
  compilation.describe(*program);
  describeState(*program, *compilation.module);
  program->chunk = compilation.schedule.chunk;
  Work work = countWork(*compilation.module, compilation.schedule);
  program->multiplyAddsPerQuery = work.perQuery;
  program->multiplyAddsPerKey = work.perKey;
  program->multiplyAddsPerPair = work.perPair;
  if (auto done = compilation.tile(); !done)
    return done.error();
  llvm::SmallVector<std::pair<Entry *, std::string>> entries{{&program->forward, kForward.str()}};
  if (program->stateElements)
    entries.push_back({&program->advance, "advance"});
  for (size_t i = 0; i < program->draws.size(); ++i)
    entries.push_back({&program->draws[i], fmt::format("draw{}", i)});
  if (auto done = compilation.load(entries, program->code, program->scratchBytes); !done)
    return done.error();
  return std::shared_ptr<const Program>(program);
}

/// The operands of a gradient, read off the scan level.
static void describeGradient(GradientEntry &entry, func::FuncOp function, const std::vector<std::string> &results) {
  const int64_t inputs = function->getAttrOfType<IntegerAttr>(kGradientAttr).getInt();
  for (int64_t i = 0; i < inputs; ++i)
    entry.operands.push_back(function.getArgAttrOfType<StringAttr>(i, kNameAttr).str());
  for (const std::string &result : results)
    entry.operands.push_back("grad." + result);
  for (int64_t i = 0; i < inputs; ++i)
    entry.gradients.push_back("grad." + entry.operands[i]);
  llvm::append_range(entry.operands, entry.gradients);
  for (Value row : rowsBetweenLoops(function))
    entry.rowWidths.push_back(cast<RankedTensorType>(row.getType()).getNumElements());
  for (const KeptMember &member : keptStates(function))
    entry.kept.push_back({member.offset, member.type.getNumElements()});
}

Result<std::shared_ptr<const BackwardProgram>> buildBackward(const Instance &instance, const CompileOptions &options,
                                                             Keeps keeps) {
  Compilation compilation(instance, options);
  if (auto done = compilation.lower(Stage::Scan); !done)
    return done.error();
  if (auto done = compilation.differentiate(keeps); !done)
    return done.error();
  auto program = std::make_shared<BackwardProgram>();
  auto nameOf = [](size_t draw) { return fmt::format("draw{}{}", draw, kGradientSuffix.str()); };
  auto functionOf = [&](llvm::StringRef name) { return compilation.module->lookupSymbol<func::FuncOp>(name); };
  describeGradient(program->backward, functionOf(kBackward), {"O"});
  program->draws.resize(instance.draws.size());
  for (auto [i, entry] : llvm::enumerate(program->draws))
    describeGradient(entry, functionOf(nameOf(i)), instance.draws[i].names);
  if (auto done = compilation.tile(); !done)
    return done.error();
  llvm::SmallVector<std::pair<Entry *, std::string>> entries{{&program->backward, kBackward.str()}};
  for (auto [i, entry] : llvm::enumerate(program->draws))
    entries.push_back({&entry, nameOf(i)});
  if (auto done = compilation.load(entries, program->code, program->scratchBytes); !done)
    return done.error();
  return std::shared_ptr<const BackwardProgram>(program);
}

Result<std::shared_ptr<const LossProgram>> buildLossGradient(const Instance &instance, std::size_t index,
                                                             const CompileOptions &options) {
  Compilation compilation(instance, options);
  const LossInfo &loss = instance.losses[index];
  compilation.module = emitLoss(compilation.context, instance, loss, compilation.element());
  for (auto stage : {buildSimplify, buildScan})
    if (auto done = compilation.run(stage, "loss"); !done)
      return done.error();
  if (auto done = compilation.differentiate(); !done)
    return done.error();
  auto program = std::make_shared<LossProgram>();
  const std::string name = "loss" + kGradientSuffix.str();
  describeGradient(program->backward, compilation.module->lookupSymbol<func::FuncOp>(name), {loss.name});
  if (auto done = compilation.tile(); !done)
    return done.error();
  if (auto done = compilation.load({{&program->backward, name}}, program->code, program->scratchBytes); !done)
    return done.error();
  return std::shared_ptr<const LossProgram>(program);
}

std::vector<LogScales> findLogScales(const Instance &instance, const CompileOptions &options) {
  Compilation compilation(instance, options);
  Program program;
  if (compilation.lower(Stage::Scan))
    describeState(program, *compilation.module);
  return program.logScales;
}

Result<std::string> emitText(const Instance &instance, Stage stage, const CompileOptions &options, Pass pass) {
  const bool backward = pass != Pass::Forward;
  Compilation compilation(instance, options);
  if (auto done = compilation.lower(backward && stage != Stage::Formula ? Stage::Scan : stage); !done)
    return done.error();
  if (backward && stage != Stage::Formula) {
    const Keeps keeps = pass == Pass::BackwardFromResidual ? Kinds(*compilation.module).keeps() : Keeps::Nothing;
    if (auto done = compilation.differentiate(keeps); !done)
      return done.error();
    if (stage != Stage::Scan)
      if (auto done = compilation.tile(); !done)
        return done.error();
  }
  if (stage != Stage::Llvm && stage != Stage::Asm && stage != Stage::Ptx)
    return compilation.print();
  return compilation.emitCode(stage);
}

} // namespace yaglom::compiler
