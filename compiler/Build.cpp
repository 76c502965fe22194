// build() and emitText(): an attention through all stages, its draws and losses beside it.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Compilation.h"
#include "compiler/Pipeline.h"
#include "compiler/Work.h"
#include "compiler/formula/Emit.h"
#include "dialect/Phi.h"

#include <fmt/core.h>

using namespace mlir;

namespace yaglom::compiler {

/// The operands of each function in their order, read off before lowering forgets their names.
static void describe(Program &program, const Instance &instance, ModuleOp module) {
  program.draws.resize(instance.draws.size());
  for (auto function : module.getOps<func::FuncOp>()) {
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

namespace {

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

} // namespace

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

std::string machineIdentity(const std::string &target) {
  if (auto architecture = gpuArchitecture(target))
    return *architecture;
  const auto describe = [](const cpu::Machine &machine) { return machine.cpu + " " + machine.features; };
  if (target == "host") {
    static const std::string host = describe(cpu::Machine::host()); // asking a virtual processor takes long
    return host;
  }
  Result<cpu::Machine> machine = cpu::Machine::named(target);
  return machine ? describe(*machine) : target;
}

Result<Program> build(const Instance &instance, const CompileOptions &options) {
  Compilation compilation(instance, options, "forward");
  if (auto done = compilation.lower(Stage::Scan); !done)
    return done.error();
  Program program;
  describe(program, instance, *compilation.module);
  describeState(program, *compilation.module);
  program.chunk = compilation.schedule.chunk;
  Work work = countWork(*compilation.module, compilation.schedule);
  program.multiplyAddsPerQuery = work.perQuery;
  program.multiplyAddsPerKey = work.perKey;
  program.multiplyAddsPerPair = work.perPair;
  if (auto done = compilation.tile(); !done)
    return done.error();
  llvm::SmallVector<std::pair<Entry *, std::string>> entries{{&program.forward, kForward.str()}};
  if (program.stateElements)
    entries.push_back({&program.advance, "advance"});
  for (size_t i = 0; i < program.draws.size(); ++i)
    entries.push_back({&program.draws[i], fmt::format("draw{}", i)});
  auto code = compilation.generate(entries, program.scratchBytes);
  if (!code)
    return code.error();
  program.code = std::move(*code);
  return program;
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

static llvm::StringRef backwardName(Keeps keeps) {
  return keeps == Keeps::Nothing ? "backward" : "backward-from-residual";
}

Result<BackwardProgram> buildBackward(const Instance &instance, const CompileOptions &options, Keeps keeps) {
  Compilation compilation(instance, options, backwardName(keeps));
  if (auto done = compilation.lower(Stage::Scan); !done)
    return done.error();
  if (auto done = compilation.differentiate(keeps); !done)
    return done.error();
  BackwardProgram program;
  auto nameOf = [](size_t draw) { return fmt::format("draw{}{}", draw, kGradientSuffix.str()); };
  auto functionOf = [&](llvm::StringRef name) { return compilation.module->lookupSymbol<func::FuncOp>(name); };
  describeGradient(program.backward, functionOf(kBackward), {"O"});
  program.draws.resize(instance.draws.size());
  for (auto [i, entry] : llvm::enumerate(program.draws))
    describeGradient(entry, functionOf(nameOf(i)), instance.draws[i].names);
  if (auto done = compilation.tile(); !done)
    return done.error();
  llvm::SmallVector<std::pair<Entry *, std::string>> entries{{&program.backward, kBackward.str()}};
  for (auto [i, entry] : llvm::enumerate(program.draws))
    entries.push_back({&entry, nameOf(i)});
  auto code = compilation.generate(entries, program.scratchBytes);
  if (!code)
    return code.error();
  program.code = std::move(*code);
  return program;
}

Result<LossProgram> buildLossGradient(const Instance &instance, std::size_t index, const CompileOptions &options) {
  const LossInfo &loss = instance.losses[index];
  Compilation compilation(instance, options, "loss-" + loss.name);
  compilation.module = emitLoss(compilation.context, instance, loss, compilation.element());
  for (auto stage : {buildSimplify, buildScan})
    if (auto done = compilation.run(stage, "loss"); !done)
      return done.error();
  if (auto done = compilation.differentiate(); !done)
    return done.error();
  LossProgram program;
  const std::string name = "loss" + kGradientSuffix.str();
  describeGradient(program.backward, compilation.module->lookupSymbol<func::FuncOp>(name), {loss.name});
  if (auto done = compilation.tile(); !done)
    return done.error();
  auto code = compilation.generate({{&program.backward, name}}, program.scratchBytes);
  if (!code)
    return code.error();
  program.code = std::move(*code);
  return program;
}

std::vector<LogScales> findLogScales(const Instance &instance, const CompileOptions &options) {
  Compilation compilation(instance, options, "forward");
  Program program;
  if (compilation.lower(Stage::Scan))
    describeState(program, *compilation.module);
  return program.logScales;
}

static llvm::StringRef emittedName(Pass pass) {
  return pass == Pass::Forward ? "forward" : backwardName(pass == Pass::Backward ? Keeps::Nothing : Keeps::Segments);
}

Result<std::string> emitText(const Instance &instance, Stage stage, const CompileOptions &options, Pass pass,
                             bool locations) {
  const bool backward = pass != Pass::Forward;
  Compilation compilation(instance, options, emittedName(pass), locations ? Lines::Comments : Lines::None);
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
