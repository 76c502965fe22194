// build() and emitText(): an attention through all stages, its draws and losses beside it.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"

#include "compiler/Pipeline.h"
#include "compiler/Work.h"
#include "compiler/formula/Emit.h"
#include "compiler/targets/cpu/Codegen.h"
#include "compiler/targets/cpu/Jit.h"
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
    return options.dtype == DType::f32 ? FloatType(Float32Type::get(&context)) : FloatType(Float64Type::get(&context));
  }
  Result<void> run(llvm::function_ref<void(OpPassManager &)> build, const char *stage);
  Result<void> lower(Stage until);
  Result<void> differentiate(Keeps keeps = Keeps::Nothing);
  Result<void> tile();
  Result<std::unique_ptr<llvm::Module>> toLlvm(const cpu::Machine &machine);
  Result<std::shared_ptr<cpu::LoadedCode>> load(const cpu::Machine &machine, int64_t &scratchBytes);
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

Result<void> Compilation::tile() {
  return run([&](OpPassManager &passes) { buildTile(passes, schedule); }, "tile");
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

/// Machine code of the tile programs, ready to be called.
Result<std::shared_ptr<cpu::LoadedCode>> Compilation::load(const cpu::Machine &machine, int64_t &scratchBytes) {
  auto llvmModule = toLlvm(machine);
  if (!llvmModule)
    return llvmModule.error();
  auto bytes = (*module)->getAttrOfType<IntegerAttr>("phi.scratch_bytes");
  scratchBytes = bytes ? bytes.getInt() : 0;
  auto object = cpu::emitObject(**llvmModule, machine);
  if (!object)
    return object.error();
  return cpu::LoadedCode::load(std::move(*object));
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

static Result<void> bindEntry(const cpu::LoadedCode &code, Entry &entry, const std::string &name) {
  auto address = code.find(name);
  if (!address)
    return address.error();
  entry.function = reinterpret_cast<Entry::Function>(*address);
  return {};
}

Result<std::shared_ptr<const Program>> build(const Instance &instance, const CompileOptions &options) {
  Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
  if (!machine)
    return machine.error();
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
  auto code = compilation.load(*machine, program->scratchBytes);
  if (!code)
    return code.error();
  program->code = *code;
  auto bind = [&](Entry &entry, const std::string &name) { return bindEntry(**code, entry, name); };
  if (auto done = bind(program->forward, kForward.str()); !done)
    return done.error();
  if (program->stateElements)
    if (auto done = bind(program->advance, "advance"); !done)
      return done.error();
  for (size_t i = 0; i < program->draws.size(); ++i)
    if (auto done = bind(program->draws[i], fmt::format("draw{}", i)); !done)
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
  Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
  if (!machine)
    return machine.error();
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
  auto code = compilation.load(*machine, program->scratchBytes);
  if (!code)
    return code.error();
  program->code = *code;
  if (auto done = bindEntry(**code, program->backward, kBackward.str()); !done)
    return done.error();
  for (auto [i, entry] : llvm::enumerate(program->draws))
    if (auto done = bindEntry(**code, entry, nameOf(i)); !done)
      return done.error();
  return std::shared_ptr<const BackwardProgram>(program);
}

Result<std::shared_ptr<const LossProgram>> buildLossGradient(const Instance &instance, std::size_t index,
                                                             const CompileOptions &options) {
  Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
  if (!machine)
    return machine.error();
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
  auto code = compilation.load(*machine, program->scratchBytes);
  if (!code)
    return code.error();
  program->code = *code;
  if (auto done = bindEntry(**code, program->backward, name); !done)
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
  Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
  if (!machine)
    return machine.error();
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
  if (stage != Stage::Llvm && stage != Stage::Asm)
    return compilation.print();
  auto llvmModule = compilation.toLlvm(*machine);
  if (!llvmModule)
    return llvmModule.error();
  if (stage == Stage::Llvm)
    return cpu::printLlvm(**llvmModule);
  return cpu::emitAssembly(**llvmModule, *machine);
}

} // namespace yaglom::compiler
