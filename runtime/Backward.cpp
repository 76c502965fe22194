// Gradients: a launch for the attention, one for each draw behind it, and sums in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Backward.h"

#include "runtime/Arguments.h"
#include "runtime/Compiled.h"
#include "runtime/DeviceParameters.h"
#include "runtime/Draw.h"
#include "runtime/GradientLaunch.h"
#include "runtime/Interpret.h"
#include "runtime/Launch.h"
#include "runtime/Overlap.h"
#include "runtime/Prepare.h"
#include "runtime/Residual.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace yaglom {
namespace runtime {

Tensor sumItems(const HeadTensor &info, const Tensor &items, int64_t batch, int64_t heads) {
  Tensor sum(items.dtype(), info.shapeFor(heads));
  const int64_t elements = info.elements();
  const int64_t kept = info.shared ? 1 : heads;
  for (int64_t head = 0; head < kept; ++head)
    for (int64_t i = 0; i < elements; ++i) {
      double total = 0;
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = head; h < heads; h += kept)
          total += items.at((b * heads + h) * elements + i);
      sum.set(head * elements + i, total);
    }
  return sum;
}

void addTo(Parameters &gradients, const std::string &name, Tensor more) {
  if (const Tensor *there = gradients.find(name))
    for (int64_t i = 0; i < more.size(); ++i)
      more.set(i, more.at(i) + there->at(i));
  gradients.set(name, std::move(more));
}

void scatter(const Compiled &compiled, const HeadTensor &rows, const Tensor &from,
             const compiler::PreparedOperand &prepared, const Parameters &parameters, int64_t heads,
             Parameters &gradients) {
  const HeadTensor &table = compiled.headTensors[compiled.headTensor(prepared.table)];
  Tensor sums(compiled.parameterType(), table.shapeFor(heads));
  const int64_t width = table.elements() / table.shape[0];
  const int64_t count = rows.shape[0], rowHeads = rows.shared ? 1 : heads;
  std::vector<double> totals(static_cast<std::size_t>(sums.size()));
  for (int64_t head = 0; head < rowHeads; ++head) {
    const std::vector<int64_t> components = allocate(parameters[prepared.alpha], head, count);
    for (int64_t row = 0; row < count; ++row)
      for (int64_t i = 0; i < width; ++i) {
        const int64_t target = ((table.shared ? 0 : head * table.shape[0]) + components[static_cast<std::size_t>(row)]);
        totals[static_cast<std::size_t>(target * width + i)] += from.at((head * count + row) * width + i);
      }
  }
  for (int64_t i = 0; i < sums.size(); ++i)
    sums.set(i, totals[static_cast<std::size_t>(i)]);
  addTo(gradients, "grad." + prepared.table, std::move(sums));
}

Sizes checkBackward(const Compiled &compiled, const BackwardArguments &given) {
  if (given.options.threads < 0)
    throw Error(fmt::format("threads must be 0 or more, found {}", given.options.threads));
  checkStream(compiled, given.options.stream);
  const Sizes sizes = checkBackward(compiled, given.inputs, given.parameters, given.grad);
  if (const Residual::Impl *residual = given.residual())
    residual->check(compiled, sizes);
  return sizes;
}

/// From states of chunks of that size. Those between two that were kept are computed again, with the same bits only by chunks of
/// the same size: so gradients do not depend on the interval.
static const compiler::BackwardProgram &fromStates(const Compiled &compiled, const Choice &choice, int64_t chunk) {
  if (choice.backward->chunk == chunk)
    return *choice.backward;
  return *compiled.backwardBy(compiled.program->keeps, withChunk(compiled, choice.schedule, chunk)).value();
}

static bool hasStates(const Residual::Impl *residual) {
  return residual && residual->keeps != compiler::Keeps::Nothing;
}

const compiler::BackwardProgram &chooseBackward(const Compiled &compiled, const Sizes &sizes,
                                                const Residual::Impl *residual) {
  if (!hasStates(residual))
    return *compiled.choose(Pass::Backward, sizes).backward;
  return fromStates(compiled, compiled.choose(Pass::BackwardFromResidual, sizes), residual->chunk);
}

std::vector<const compiler::BackwardProgram *> backwardPrograms(const Compiled &compiled, const Sizes &sizes,
                                                                const Residual::Impl *residual) {
  std::vector<const compiler::BackwardProgram *> programs;
  if (!hasStates(residual)) {
    for (const Choice *choice : compiled.choices.upTo(compiled, Pass::Backward, sizes))
      programs.push_back(choice->backward.get());
    return programs;
  }
  for (const Choice *forward : compiled.choices.upTo(compiled, Pass::Forward, sizes))
    for (const Choice *choice : compiled.choices.upTo(compiled, Pass::BackwardFromResidual, sizes))
      programs.push_back(&fromStates(compiled, *choice, forward->forward->chunk));
  return programs;
}

std::vector<const HeadTensor *> differentiated(const Compiled &compiled, const HeadTensors &parameters) {
  std::vector<const HeadTensor *> tensors;
  for (const ParameterInfo &info : compiled.instance.parameters)
    if (parameters.find(info.name))
      tensors.push_back(&compiled.headTensors[compiled.headTensor(info.name)]);
  for (const DrawInfo &draw : compiled.instance.draws)
    for (const std::string &name : draw.names)
      tensors.push_back(&compiled.headTensors[compiled.headTensor(name)]);
  return tensors;
}

bool reachesSampler(const Compiled &compiled, std::size_t index, const HeadTensors &parameters) {
  const std::string prefix = compiled.instance.draws[index].sampler + ".";
  const std::vector<ParameterInfo> &infos = compiled.instance.parameters;
  return std::any_of(infos.begin(), infos.end(), [&](const ParameterInfo &info) {
    return info.name.starts_with(prefix) && parameters.find(info.name);
  });
}

namespace {

/// Gradients of tensors of the heads for every item, on the host.
class HostItems {
public:
  HostItems(const Compiled &compiled, const Grid &grid) : compiled(compiled), grid(grid) {}

  Operand make(const HeadTensor &info) {
    Shape shape{grid.batch, grid.heads};
    shape.insert(shape.end(), info.shape.begin(), info.shape.end());
    made.emplace_back(&info, Tensor(compiled.parameterType(), shape));
    return bindPerItem(info, made.back().second, grid.heads);
  }

  /// Their sums, by name, added to those there are.
  void addSums(Parameters &gradients) const {
    for (const auto &[info, tensor] : made)
      addTo(gradients, "grad." + info->name, sumItems(*info, tensor, grid.batch, grid.heads));
  }

private:
  const Compiled &compiled;
  const Grid &grid;
  std::vector<std::pair<const HeadTensor *, Tensor>> made;
};

} // namespace

void backwardDraw(const Compiled &compiled, const compiler::BackwardProgram &program, std::size_t index,
                  const Parameters &parameters, int64_t heads, const Backward &options, Parameters &gradients) {
  const DrawInfo &draw = compiled.instance.draws[index];
  const compiler::GradientEntry &entry = program.draws[index];
  if (!reachesSampler(compiled, index, parameters))
    return;
  Parameters made;
  made.set(draw.noiseName(), findNoise(compiled, draw.noiseName(), parameters, heads, options.seed));
  for (const std::string &operand : entry.operands)
    if (const auto prepared = compiler::PreparedOperand::parse(operand); prepared && !operand.starts_with("grad."))
      made.set(operand, prepareRows(compiled, operand, *prepared, parameters, made[draw.noiseName()], heads));
  const Grid grid{.heads = draw.shared ? 1 : heads, .queryRows = draw.rows};
  HostItems items(compiled, grid);
  const Execution how(compiled.device, {.threads = 1, .stream = options.stream});
  GradientLaunch{compiled, program, entry, grid}.run(
      [&](const std::string &name, bool isResult) {
        const bool isGradient = name.starts_with("grad.");
        const HeadTensor &info = compiled.headTensors[compiled.headTensor(isGradient ? tensorOf(name) : name)];
        if (isResult)
          return items.make(info);
        const Tensor *found = isGradient ? gradients.find(name) : made.find(name);
        if (!found)
          checkHeadTensor(info, found = parameters.find(name), heads, compiled.parameterType());
        return bindHeadTensor(info, *found, false);
      },
      how);
  how.finish();
  Parameters parts;
  items.addSums(parts);
  for (const std::string &operand : entry.operands)
    if (const auto prepared = compiler::PreparedOperand::parse(operand); prepared && !operand.starts_with("grad."))
      if (prepared->kind == compiler::PreparedOperand::Kind::Component)
        scatter(compiled, compiled.headTensors[compiled.headTensor(operand)], parts["grad." + operand], *prepared,
                parameters, heads, parts);
  for (const ParameterInfo &info : compiled.instance.parameters)
    if (const Tensor *part = parts.find("grad." + info.name))
      addTo(gradients, "grad." + info.name, *part);
}

} // namespace runtime

namespace {

using runtime::BackwardArguments;
using runtime::Compiled;
using runtime::HeadTensor;
using runtime::Operand;

/// Where gradients go: tensors of the caller, or new ones.
class Destination {
public:
  Destination(const Compiled &compiled, Gradients &gradients, bool adds, int64_t heads)
      : compiled(compiled), gradients(gradients), adds(adds), heads(heads) {}

  /// Throws when the caller's tensor for the gradient of an input does not fit.
  void checkInput(const std::string &name, const Shape &shape, std::span<const TensorRef> arguments) const {
    const Tensor *there = check(name, shape, compiled.options.dtype);
    for (const TensorRef &argument : arguments)
      if (there && runtime::overlap(there->ref(), argument))
        throw Error(fmt::format("argument '{}': overlaps an argument that is read", name));
  }
  void checkHead(const HeadTensor &info) const {
    check("grad." + info.name, info.shapeFor(heads), compiled.parameterType());
  }

  /// The tensor that a kernel may write the gradient of an input to.
  Tensor &forInput(const std::string &name, const Shape &shape) {
    Parameters &home = adds ? fresh : gradients;
    if (!home.find(name))
      home.set(name, Tensor(compiled.options.dtype, shape));
    return home[name];
  }

  /// Sets or adds `values`; null stands for zeros.
  void put(const std::string &name, const Tensor *values, const Shape &shape) {
    Tensor *there = gradients.find(name);
    if (!there)
      return gradients.set(name, values ? *values : Tensor(compiled.parameterType(), shape));
    for (int64_t i = 0; i < there->size(); ++i)
      there->set(i, (adds ? there->at(i) : 0) + (values ? values->at(i) : 0));
  }

  /// Adds what kernels wrote to tensors of its own.
  void finish() {
    for (const auto &entry : fresh)
      put(entry.name, &entry.tensor, entry.tensor.shape());
  }

private:
  const Tensor *check(const std::string &name, const Shape &shape, DType dtype) const {
    const Tensor *there = gradients.find(name);
    if (there && (there->shape() != shape || there->dtype() != dtype))
      throw Error(fmt::format("argument '{}': a tensor of another shape or type than the gradient", name));
    return there;
  }

  const Compiled &compiled;
  Gradients &gradients;
  const bool adds;
  const int64_t heads;
  Gradients fresh;
};

void interpret(const Compiled &compiled, const BackwardArguments &given, const Parameters &parameters, int64_t heads,
               Destination &target) {
  Parameters noise;
  for (const DrawInfo &draw : compiled.instance.draws)
    noise.set(draw.noiseName(), runtime::findNoise(compiled, draw.noiseName(), parameters, heads, given.options.seed));
  for (const auto &entry : runtime::interpretBackward(compiled, given.inputs, parameters, given.grad, noise, heads))
    target.put(entry.name, &entry.tensor, entry.tensor.shape());
}

/// The gradients of inputs go to `target`, those of tensors of the heads are returned; zero ones may be missing.
Gradients launchBackward(const Compiled &compiled, const BackwardArguments &given, const Parameters &parameters,
                         const runtime::Sizes &sizes, Destination &target) {
  const std::vector<InputInfo> &infos = compiled.instance.inputs;
  const Residual::Impl *residual = given.residual();
  Gradients sums;
  for (std::size_t i = 0; i < infos.size(); ++i)
    target.forInput("grad." + infos[i].name, given.inputs[i].shape);
  if (!sizes.batch || !sizes.heads)
    return sums;
  const runtime::Grid grid{sizes.batch, sizes.heads, sizes.queryLength, sizes.keyLength,
                           residual ? residual->segmentRows : 0};
  const compiler::BackwardProgram &program = chooseBackward(compiled, sizes, residual);
  runtime::HostItems items(compiled, grid);
  const auto operandOf = [&](const std::string &name, bool isResult) {
    if (name == "grad.O")
      return runtime::bindTensor(given.grad, false);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (name == infos[i].name)
        return runtime::bindTensor(given.inputs[i], false);
      if (name == "grad." + infos[i].name)
        return runtime::bindTensor(target.forInput(name, given.inputs[i].shape), true);
    }
    const std::string tensor = isResult ? runtime::tensorOf(name) : name;
    const HeadTensor &info = compiled.headTensors[compiled.headTensor(tensor)];
    return isResult ? items.make(info) : bindHeadTensor(info, parameters[name], false);
  };
  const runtime::Execution how(compiled.device, {.threads = given.options.threads, .stream = given.options.stream});
  runtime::GradientLaunch{compiled, program, program.backward, grid, residual}.run(operandOf, how);
  how.finish();
  items.addSums(sums);
  return sums;
}

void backwardChecked(const Compiled &compiled, const BackwardArguments &given, Gradients &gradients, bool adds) {
  const runtime::Sizes sizes = checkBackward(compiled, given);
  const std::vector<const HeadTensor *> tensors = differentiated(compiled, given.parameters);
  Destination target(compiled, gradients, adds, sizes.heads);
  std::vector<TensorRef> read(given.inputs.begin(), given.inputs.end());
  read.push_back(given.grad);
  for (std::size_t i = 0; i < given.inputs.size(); ++i)
    target.checkInput("grad." + compiled.instance.inputs[i].name, given.inputs[i].shape, read);
  for (const HeadTensor *info : tensors)
    target.checkHead(*info);
  Parameters copies;
  const Parameters &parameters = given.parameters.onHost(copies, given.options.stream);
  if (compiled.isReference())
    return interpret(compiled, given, parameters, sizes.heads, target);
  Gradients sums = launchBackward(compiled, given, parameters, sizes, target);
  for (std::size_t i = 0; i < compiled.instance.draws.size() && sizes.batch && sizes.heads; ++i)
    backwardDraw(compiled, chooseBackward(compiled, sizes, given.residual()), i, parameters, sizes.heads, given.options,
                 sums);
  target.finish();
  for (const HeadTensor *info : tensors)
    target.put("grad." + info->name, sums.find("grad." + info->name), info->shapeFor(sizes.heads));
}

/// On the host, where the memory of `gradients` is too.
void backwardOnHost(const Compiled &compiled, const BackwardArguments &given, DeviceGradients &gradients, bool adds) {
  gradients.data().bind(nullptr, "gradients");
  Gradients values = adds ? gradients.download() : Gradients();
  backwardChecked(compiled, given, values, adds);
  std::vector<DeviceGradients::Impl::Wanted> lacking;
  for (const auto &entry : values)
    if (!gradients.contains(entry.name))
      lacking.push_back({entry.name, entry.tensor.dtype(), entry.tensor.shape()});
  gradients.data().allocate(lacking, nullptr, "gradients");
  gradients.update(values);
}

void backwardInto(const Compiled &compiled, const BackwardArguments &given, DeviceGradients &gradients, bool adds) {
  (compiled.device ? runtime::backwardOnDevice : backwardOnHost)(compiled, given, gradients, adds);
}

} // namespace

Gradients Kernel::backward(std::initializer_list<TensorRef> inputs, const Parameters &parameters,
                           const TensorRef &outputGradient, const Backward &options) const {
  Gradients gradients;
  backwardChecked(*impl->compiled, {{inputs.begin(), inputs.size()}, parameters, outputGradient, options}, gradients,
                  false);
  return gradients;
}

Gradients Kernel::backward(const std::vector<TensorRef> &inputs, const Parameters &parameters,
                           const TensorRef &outputGradient, const Backward &options) const {
  Gradients gradients;
  backwardChecked(*impl->compiled, {inputs, parameters, outputGradient, options}, gradients, false);
  return gradients;
}

void Kernel::backward(const std::vector<TensorRef> &inputs, const Parameters &parameters,
                      const TensorRef &outputGradient, Gradients &gradients, const Backward &options) const {
  backwardChecked(*impl->compiled, {inputs, parameters, outputGradient, options}, gradients, false);
}

void Kernel::accumulate(const std::vector<TensorRef> &inputs, const Parameters &parameters,
                        const TensorRef &outputGradient, Gradients &sums, const Backward &options) const {
  backwardChecked(*impl->compiled, {inputs, parameters, outputGradient, options}, sums, true);
}

void Kernel::backward(const std::vector<TensorRef> &inputs, const DeviceParameters &parameters,
                      const TensorRef &outputGradient, DeviceGradients &gradients, const Backward &options) const {
  backwardInto(*impl->compiled, {inputs, parameters, outputGradient, options}, gradients, false);
}

void Kernel::accumulate(const std::vector<TensorRef> &inputs, const DeviceParameters &parameters,
                        const TensorRef &outputGradient, DeviceGradients &sums, const Backward &options) const {
  backwardInto(*impl->compiled, {inputs, parameters, outputGradient, options}, sums, true);
}

} // namespace yaglom
