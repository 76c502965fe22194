// Resolves a compiled attention: which tensor each operand is, and which tensors a launch needs.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compiled.h"

#include "runtime/Programs.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <set>

namespace yaglom::runtime {
namespace {

/// Looks for the option `causal` in everything that an attention computes, also in the formulas (`fn`) it calls.
class CausalSearch {
public:
  explicit CausalSearch(const ast::File &file) : file(file) {}

  bool inBody(const ast::Body &body) {
    return (body.result && inExpr(*body.result)) ||
           std::any_of(body.bindings.begin(), body.bindings.end(),
                       [&](const ast::Binding &binding) { return binding.value && inExpr(*binding.value); });
  }

private:
  bool inExpr(const ast::Expr &expr) {
    for (const ast::Option &option : expr.options)
      if (option.name == "causal")
        return true;
    for (const ast::ExprRef &arg : expr.args)
      if (inExpr(*arg))
        return true;
    if (expr.kind != ast::ExprKind::Call || !visited.insert(expr.name).second)
      return false;
    const auto *fn = file.find<ast::FnDecl>(expr.name);
    return fn && inExpr(*fn->body);
  }

  const ast::File &file;
  std::set<std::string> visited; ///< formulas; recursion was refused, repeated calls are searched once
};

std::vector<HeadTensor> makeHeadTensors(const Instance &instance) {
  std::vector<HeadTensor> tensors;
  for (const ParameterInfo &parameter : instance.parameters)
    tensors.push_back({parameter.name, parameter.shared, parameter.shape});
  for (const DrawInfo &draw : instance.draws)
    for (const std::string &name : draw.names)
      tensors.push_back({name, draw.shared, {draw.rows, draw.width / static_cast<int64_t>(draw.names.size())}});
  for (const DrawInfo &draw : instance.draws)
    tensors.push_back({draw.noiseName(), draw.shared, {draw.rows, draw.noiseWidth}});
  for (const LossInfo &loss : instance.losses)
    tensors.push_back({loss.name + ".noise", loss.shared, {loss.samples, loss.noiseWidth}});
  for (const LossInfo &loss : instance.losses)
    tensors.push_back({"loss." + loss.name, loss.shared, {}});
  return tensors;
}

/// Parameters of maps and of the attention, and draws. Sampler parameters act through the draws alone.
std::vector<std::size_t> makeForwardTensors(const Compiled &compiled) {
  std::set<std::string> ofSamplers;
  for (const SamplerInfo &sampler : compiled.instance.samplers)
    ofSamplers.insert(sampler.parameters.begin(), sampler.parameters.end());
  std::vector<std::size_t> places;
  for (const ParameterInfo &parameter : compiled.instance.parameters)
    if (!ofSamplers.contains(parameter.name))
      places.push_back(compiled.headTensor(parameter.name));
  for (const DrawInfo &draw : compiled.instance.draws)
    for (const std::string &name : draw.names)
      places.push_back(compiled.headTensor(name));
  return places;
}

/// `written`: names of the head tensors that the function makes.
Result<Plan> makePlan(const Compiled &compiled, const compiler::Entry &entry, const std::set<std::string> &written) {
  Plan plan{&entry, {}};
  const std::vector<InputInfo> &inputs = compiled.instance.inputs;
  for (const std::string &name : entry.operands) {
    const auto named = [&](const auto &info) { return info.name == name; };
    const auto input = std::find_if(inputs.begin(), inputs.end(), named);
    const auto head = std::find_if(compiled.headTensors.begin(), compiled.headTensors.end(), named);
    if (name == "O")
      plan.operands.push_back({OperandSource::Kind::Output, 0, true});
    else if (input != inputs.end())
      plan.operands.push_back({OperandSource::Kind::Input, static_cast<std::size_t>(input - inputs.begin()), false});
    else if (head != compiled.headTensors.end())
      plan.operands.push_back({OperandSource::Kind::Head, static_cast<std::size_t>(head - compiled.headTensors.begin()),
                               written.contains(name)});
    else
      return Error("internal error: the compiled code of '" + compiled.instance.attention->id.name +
                   "' has an operand '" + name + "', which is no tensor of it");
  }
  return plan;
}

/// Rows of a draw that runtime/Prepare.cpp makes: one for each row drawn.
HeadTensor preparedTensor(const Compiled &compiled, const DrawInfo &draw, const std::string &name,
                          const compiler::PreparedOperand &operand) {
  if (operand.kind == compiler::PreparedOperand::Kind::Orthogonalize)
    return {name, draw.shared, {draw.rows, draw.noiseWidth}};
  std::vector<int64_t> shape = compiled.headTensors[compiled.headTensor(operand.table)].shape;
  shape[0] = draw.rows;
  if (shape.size() == 1)
    shape.push_back(1);
  return {name, draw.shared, shape};
}

Result<void> makePlans(Compiled &compiled) {
  const compiler::Program &program = *compiled.program;
  if (program.draws.size() != compiled.instance.draws.size())
    return Error("internal error: the compiled code lacks a draw");
  Result<Plan> forward = makePlan(compiled, program.forward, {});
  if (!forward)
    return forward.error();
  compiled.forward = *forward;
  for (std::size_t i = 0; i < program.draws.size(); ++i) {
    for (const std::string &operand : program.draws[i].operands)
      if (const auto prepared = compiler::PreparedOperand::parse(operand))
        compiled.headTensors.push_back(preparedTensor(compiled, compiled.instance.draws[i], operand, *prepared));
    const std::vector<std::string> &names = compiled.instance.draws[i].names;
    Result<Plan> plan = makePlan(compiled, program.draws[i], {names.begin(), names.end()});
    if (!plan)
      return plan.error();
    compiled.draws.push_back(*plan);
  }
  return {};
}

} // namespace

Shape HeadTensor::shapeFor(int64_t heads) const {
  Shape result;
  if (!shared)
    result.push_back(heads);
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

int64_t HeadTensor::elements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

Compiled::Compiled(Spec spec, Instance instance, CompileOptions options,
                   std::shared_ptr<const compiler::Program> program, std::shared_ptr<GpuDevice> device)
    : spec(std::move(spec)), instance(std::move(instance)), options(std::move(options)), program(std::move(program)),
      device(std::move(device)) {}

Result<std::shared_ptr<const compiler::Program>> Compiled::forwardBy(const Schedule &schedule) const {
  if (schedule == options.schedule)
    return program;
  CompileOptions by = options;
  by.schedule = schedule;
  return obtain<compiler::Program>(programKey("forward", spec, instance, by),
                                   [&] { return compiler::build(instance, by); });
}

Compiled::Lazy &Compiled::lazyBackward(compiler::Keeps keeps, const Schedule &schedule) const {
  const std::lock_guard<std::mutex> lock(backwardMutex);
  const char *const kind = keeps == compiler::Keeps::Nothing ? "" : "from residual, ";
  return backwardPrograms[kind + schedule.toText()];
}

Result<std::shared_ptr<const compiler::BackwardProgram>> Compiled::backwardBy(compiler::Keeps keeps,
                                                                              const Schedule &schedule) const {
  Lazy &lazy = lazyBackward(keeps, schedule);
  std::call_once(lazy.once, [&] {
    CompileOptions by = options;
    by.schedule = schedule;
    lazy.program = obtain<compiler::BackwardProgram>(programKey(backwardKind(keeps), spec, instance, by),
                                                     [&] { return compiler::buildBackward(instance, by, keeps); });
  });
  return lazy.program;
}

void Compiled::setBackward(compiler::Keeps keeps, std::shared_ptr<const compiler::BackwardProgram> program) {
  Lazy &lazy = lazyBackward(keeps, options.schedule);
  std::call_once(lazy.once, [&] { lazy.program = std::move(program); });
}

const compiler::LossProgram &Compiled::lossGradient(std::size_t index) const {
  const std::lock_guard<std::mutex> lock(lossMutex);
  std::shared_ptr<const compiler::LossProgram> &program = lossPrograms[index];
  if (!program)
    program = obtain<compiler::LossProgram>(
                  programKey("gradient of loss " + instance.losses[index].name, spec, instance, options),
                  [&] { return compiler::buildLossGradient(instance, index, options); })
                  .value();
  return *program;
}

std::size_t Compiled::headTensor(const std::string &name) const {
  const auto found = std::find_if(headTensors.begin(), headTensors.end(),
                                  [&](const HeadTensor &tensor) { return tensor.name == name; });
  assert(found != headTensors.end() && "a tensor of the instance");
  return static_cast<std::size_t>(found - headTensors.begin());
}

bool needsEqualLengths(const ast::File &file, const ast::AttentionDecl &attention) {
  return CausalSearch(file).inBody(attention.body);
}

Result<std::shared_ptr<const Compiled>> makeCompiled(Spec spec, Instance instance, CompileOptions options,
                                                     std::shared_ptr<const compiler::Program> program,
                                                     std::shared_ptr<GpuDevice> device, const Preset &preset) {
  auto compiled = std::make_shared<Compiled>(std::move(spec), std::move(instance), std::move(options),
                                             std::move(program), std::move(device));
  compiled->isPinned = preset.isPinned;
  if (preset.backward)
    compiled->setBackward(preset.keeps, preset.backward);
  compiled->equalLengths = needsEqualLengths(*compiled->instance.file, *compiled->instance.attention);
  compiled->headTensors = makeHeadTensors(compiled->instance);
  compiled->forwardTensors = makeForwardTensors(*compiled);
  compiled->tensors =
      describeTensors(compiled->instance, compiled->equalLengths,
                      compiled->program ? compiled->program->logScales
                                        : compiler::findLogScales(compiled->instance, compiled->options));
  if (compiled->program)
    if (Result<void> planned = makePlans(*compiled); !planned)
      return planned.error();
  return std::shared_ptr<const Compiled>(std::move(compiled));
}

} // namespace yaglom::runtime
