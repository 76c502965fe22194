// Gradients: a launch for the attention, one for each draw behind it, and sums in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Backward.h"

#include "runtime/Arguments.h"
#include "runtime/Compiled.h"
#include "runtime/Draw.h"
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

} // namespace runtime

namespace {

using runtime::Compiled;
using runtime::HeadTensor;
using runtime::Operand;

/// Rows that the launch lends, one matrix for each thread: the operand has no address of its own.
Operand lentRows(int64_t rows, int64_t width, DType dtype) {
  return {.rowStride = width, .rows = rows, .width = width, .dtype = dtype, .isLent = true};
}

/// The gradients of every (batch, head) of a tensor of the heads, before they are summed.
Tensor perItem(const HeadTensor &info, int64_t batch, int64_t heads, DType dtype) {
  Shape shape{batch, heads};
  shape.insert(shape.end(), info.shape.begin(), info.shape.end());
  return Tensor(dtype, shape);
}

Operand bindPerItem(const HeadTensor &info, Tensor &tensor, int64_t heads) {
  Operand operand = bindHeadTensor(info, tensor, true);
  operand.headStride = info.elements();
  operand.batchStride = heads * info.elements();
  return operand;
}

/// "Q" of "grad.Q".
std::string tensorOf(const std::string &gradient) { return gradient.substr(std::string("grad.").size()); }

/// One launch of a gradient: operands by name, made or taken from the caller.
class GradientLaunch {
public:
  GradientLaunch(const Compiled &compiled, const compiler::BackwardProgram &program,
                 const compiler::GradientEntry &entry, const runtime::Grid &grid, int threads)
      : compiled(compiled), program(program), entry(entry), grid(grid), threads(threads) {}

  /// `find` gives the operand of a name; gradients of tensors of the heads are made here.
  template <typename Find>
  void run(Find find, const Residual::Impl *residual = nullptr) {
    std::vector<Operand> operands;
    const std::size_t inputs = entry.operands.size() - entry.gradients.size();
    items.resize(entry.operands.size());
    for (std::size_t i = 0; i < entry.operands.size(); ++i) {
      const std::string &name = entry.operands[i];
      const HeadTensor *info = i < inputs ? nullptr : headTensor(tensorOf(name));
      if (info) {
        items[i] = perItem(*info, grid.batch, grid.heads, compiled.parameterType());
        operands.push_back(bindPerItem(*info, items[i], grid.heads));
      } else {
        operands.push_back(find(name));
      }
    }
    for (int64_t width : entry.rowWidths)
      operands.push_back(lentRows(grid.queryRows, width, compiled.parameterType()));
    for (const compiler::GradientEntry::Member &member : entry.kept)
      operands.push_back(keptStates(*residual, member));
    for (const compiler::GradientEntry::Member &member : entry.kept)
      operands.push_back(lentRows(residual->segmentRows / compiled.program->chunk, member.elements,
                                   compiled.parameterType()));
    runtime::launch(entry, program.scratchBytes, grid, operands, compiled.options.dtype, threads);
  }

  /// The sums of what run() made, by name, added to those there are.
  void addSums(Parameters &gradients) const {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (items[i].size() > 0)
        runtime::addTo(gradients, entry.operands[i],
                       runtime::sumItems(*headTensor(tensorOf(entry.operands[i])), items[i], grid.batch, grid.heads));
  }

private:
  /// One member of the states of each item.
  Operand keptStates(const Residual::Impl &residual, const compiler::GradientEntry::Member &member) const {
    const auto bytes = static_cast<int64_t>(sizeOf(compiled.parameterType()));
    char *first = const_cast<char *>(reinterpret_cast<const char *>(residual.words.data())); // is only read
    const int64_t ofItem = residual.itemBytes / bytes;
    return {.data = first + member.offset * bytes,
            .batchStride = grid.heads * ofItem,
            .headStride = ofItem,
            .rowStride = compiled.program->stateElements,
            .rows = residual.states,
            .width = member.elements,
            .dtype = compiled.parameterType()};
  }

  const HeadTensor *headTensor(const std::string &name) const {
    const auto found = std::find_if(compiled.headTensors.begin(), compiled.headTensors.end(),
                                    [&](const HeadTensor &tensor) { return tensor.name == name; });
    return found == compiled.headTensors.end() ? nullptr : &*found;
  }

  const Compiled &compiled;
  const compiler::BackwardProgram &program;
  const compiler::GradientEntry &entry;
  const runtime::Grid &grid;
  const int threads;
  std::vector<Tensor> items;
};

/// Through draw `index` to the parameters of its sampler.
void backwardDraw(const Compiled &compiled, const compiler::BackwardProgram &program, std::size_t index,
                  const Parameters &parameters, int64_t heads, uint64_t seed, Parameters &gradients) {
  const DrawInfo &draw = compiled.instance.draws[index];
  const compiler::GradientEntry &entry = program.draws[index];
  // Without the sampler's parameters the draw is data, and nothing stands behind it.
  const bool hasParameters = std::any_of(
      compiled.instance.parameters.begin(), compiled.instance.parameters.end(), [&](const ParameterInfo &info) {
        return info.name.starts_with(draw.sampler + ".") && parameters.find(info.name);
      });
  if (!hasParameters)
    return;
  Parameters made;
  made.set(draw.noiseName(), runtime::findNoise(compiled, draw.noiseName(), parameters, heads, seed));
  for (const std::string &operand : entry.operands)
    if (const auto prepared = compiler::PreparedOperand::parse(operand); prepared && !operand.starts_with("grad."))
      made.set(operand, runtime::prepareRows(compiled, operand, *prepared, parameters, made[draw.noiseName()], heads));
  const runtime::Grid grid{.heads = draw.shared ? 1 : heads, .queryRows = draw.rows};
  GradientLaunch launch(compiled, program, entry, grid, 1);
  launch.run([&](const std::string &name) {
    const std::string tensor = name.starts_with("grad.") ? tensorOf(name) : name;
    const Tensor *found = name.starts_with("grad.") ? gradients.find(name) : made.find(name);
    const HeadTensor &info = compiled.headTensors[compiled.headTensor(tensor)];
    if (!found)
      checkHeadTensor(info, found = parameters.find(name), heads, compiled.parameterType());
    return bindHeadTensor(info, *found, false);
  });
  Parameters parts;
  launch.addSums(parts);
  for (const std::string &operand : entry.operands)
    if (const auto prepared = compiler::PreparedOperand::parse(operand); prepared && !operand.starts_with("grad."))
      if (prepared->kind == compiler::PreparedOperand::Kind::Component)
        runtime::scatter(compiled, compiled.headTensors[compiled.headTensor(operand)], parts["grad." + operand],
                         *prepared, parameters, heads, parts);
  for (const ParameterInfo &info : compiled.instance.parameters)
    if (const Tensor *part = parts.find("grad." + info.name))
      runtime::addTo(gradients, "grad." + info.name, *part);
}

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
  void checkHead(const HeadTensor &info) const { check("grad." + info.name, info.shapeFor(heads), compiled.parameterType()); }

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

/// The tensors of heads that have a gradient: every parameter that is given, and every draw.
std::vector<const HeadTensor *> differentiated(const Compiled &compiled, const Parameters &parameters) {
  std::vector<const HeadTensor *> tensors;
  for (const ParameterInfo &info : compiled.instance.parameters)
    if (parameters.find(info.name))
      tensors.push_back(&compiled.headTensors[compiled.headTensor(info.name)]);
  for (const DrawInfo &draw : compiled.instance.draws)
    for (const std::string &name : draw.names)
      tensors.push_back(&compiled.headTensors[compiled.headTensor(name)]);
  return tensors;
}

/// All arguments of a launch, as the caller gave them.
struct Arguments {
  std::span<const TensorRef> inputs;
  const Parameters &parameters;
  const TensorRef &grad;
  const Backward &options;
};

void interpret(const Compiled &compiled, const Arguments &given, int64_t heads, Destination &target) {
  Parameters noise;
  for (const DrawInfo &draw : compiled.instance.draws)
    noise.set(draw.noiseName(),
              runtime::findNoise(compiled, draw.noiseName(), given.parameters, heads, given.options.seed));
  for (const auto &entry :
       runtime::interpretBackward(compiled, given.inputs, given.parameters, given.grad, noise, heads))
    target.put(entry.name, &entry.tensor, entry.tensor.shape());
}

/// The gradients of inputs go to `target`, those of tensors of the heads are returned; zero ones may be missing.
Gradients launchBackward(const Compiled &compiled, const Arguments &given, const runtime::Sizes &sizes,
                         const Residual::Impl *residual, Destination &target) {
  const std::vector<InputInfo> &infos = compiled.instance.inputs;
  Gradients sums;
  for (std::size_t i = 0; i < infos.size(); ++i)
    target.forInput("grad." + infos[i].name, given.inputs[i].shape);
  if (!sizes.batch || !sizes.heads)
    return sums;
  const runtime::Grid grid{sizes.batch, sizes.heads, sizes.queryLength, sizes.keyLength,
                           residual ? residual->segmentRows : 0};
  const compiler::BackwardProgram &program = compiled.backward(residual ? residual->keeps : compiler::Keeps::Nothing);
  const auto operandOf = [&](const std::string &name) {
    if (name == "grad.O")
      return runtime::bindTensor(given.grad, false);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (name == infos[i].name)
        return runtime::bindTensor(given.inputs[i], false);
      if (name == "grad." + infos[i].name)
        return runtime::bindTensor(target.forInput(name, given.inputs[i].shape), true);
    }
    return bindHeadTensor(compiled.headTensors[compiled.headTensor(name)], given.parameters[name], false);
  };
  GradientLaunch launch(compiled, program, program.backward, grid, given.options.threads);
  launch.run(operandOf, residual);
  launch.addSums(sums);
  for (std::size_t i = 0; i < compiled.instance.draws.size(); ++i)
    backwardDraw(compiled, program, i, given.parameters, sizes.heads, given.options.seed, sums);
  return sums;
}

void backwardChecked(const Compiled &compiled, const Arguments &given, Gradients &gradients, bool adds) {
  if (given.options.threads < 0)
    throw Error(fmt::format("threads must be 0 or more, found {}", given.options.threads));
  const runtime::Sizes sizes = checkBackward(compiled, given.inputs, given.parameters, given.grad);
  const Residual::Impl *residual = given.options.residual ? &given.options.residual->data() : nullptr;
  if (residual)
    residual->check(compiled, sizes);
  const std::vector<const HeadTensor *> tensors = differentiated(compiled, given.parameters);
  Destination target(compiled, gradients, adds, sizes.heads);
  std::vector<TensorRef> read(given.inputs.begin(), given.inputs.end());
  read.push_back(given.grad);
  for (std::size_t i = 0; i < given.inputs.size(); ++i)
    target.checkInput("grad." + compiled.instance.inputs[i].name, given.inputs[i].shape, read);
  for (const HeadTensor *info : tensors)
    target.checkHead(*info);
  if (compiled.isReference())
    return interpret(compiled, given, sizes.heads, target);
  const Gradients sums = launchBackward(compiled, given, sizes, residual, target);
  target.finish();
  for (const HeadTensor *info : tensors)
    target.put("grad." + info->name, sums.find("grad." + info->name), info->shapeFor(sizes.heads));
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

} // namespace yaglom
