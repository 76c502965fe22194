// The public Kernel: what it takes, forward launches, and preparing for launches. Gradients are in Backward.cpp, draws and
// losses in Draw.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/kernel.h"

#include "runtime/Arguments.h"
#include "runtime/Backward.h"
#include "runtime/Compiled.h"
#include "runtime/DeviceParameters.h"
#include "runtime/Interpret.h"
#include "runtime/Launch.h"
#include "runtime/Residual.h"

#include <fmt/format.h>

#include <span>

namespace yaglom {
namespace {

using runtime::HeadTensors;

/// What a forward launch takes.
struct Arguments {
  std::span<const TensorRef> inputs;
  const HeadTensors &parameters;
  const TensorRef &output;
};

/// The operands of the forward function, in a buffer that each thread keeps: a warm launch allocates nothing.
std::span<const runtime::Operand> bindForward(const runtime::Compiled &compiled, const Arguments &given) {
  thread_local std::vector<runtime::Operand> operands;
  operands.clear();
  for (const runtime::OperandSource &source : compiled.forward.operands) {
    switch (source.kind) {
    case runtime::OperandSource::Kind::Input:
      operands.push_back(runtime::bindTensor(given.inputs[source.index], false));
      break;
    case runtime::OperandSource::Kind::Output:
      operands.push_back(runtime::bindTensor(given.output, true));
      break;
    case runtime::OperandSource::Kind::Head: {
      const runtime::HeadTensor &info = compiled.headTensors[source.index];
      operands.push_back(bindHeadTensor(info, *given.parameters.find(info.name), false));
      break;
    }
    }
  }
  return operands;
}

/// All arguments are checked, and there is work.
void compute(const runtime::Compiled &compiled, const Arguments &given, const runtime::SessionOptions &options,
             const runtime::Sizes &sizes, Residual::Impl *residual, const runtime::Choice &choice) {
  const runtime::Grid grid{sizes.batch, sizes.heads, sizes.queryLength, sizes.keyLength};
  const std::span<const runtime::Operand> operands = bindForward(compiled, given);
  const compiler::Program &program = *choice.forward;
  const runtime::Execution how(compiled.device, options);
  if (residual && residual->keeps != compiler::Keeps::Nothing)
    runtime::launchKeeping(
        program, grid, operands, compiled.options.dtype, how,
        {residual->keeps, residual->memory.data, residual->itemBytes, residual->states, residual->segmentRows});
  else
    runtime::launchForward(program, choice.schedule.segments, grid, operands, compiled.options.dtype, how);
  how.finish();
}

void interpret(const runtime::Compiled &compiled, const Arguments &given) {
  Parameters copies;
  runtime::interpretForward(compiled, given.inputs, given.parameters.onHost(copies, nullptr), given.output);
}

void forwardChecked(const runtime::Compiled &compiled, const Arguments &given, const Launch &launch) {
  if (launch.threads < 0)
    throw Error(fmt::format("threads must be 0 or more, found {}", launch.threads));
  checkStream(compiled, launch.stream);
  const runtime::Sizes sizes = checkForward(compiled, given.inputs, given.parameters, given.output);
  Residual::Impl *residual = launch.residual ? &launch.residual->data() : nullptr;
  if (residual)
    residual->prepare(compiled, sizes, launch.stream);
  if (sizes.batch && sizes.heads && sizes.queryLength && compiled.isReference())
    interpret(compiled, given);
  else if (sizes.batch && sizes.heads && sizes.queryLength)
    compute(compiled, given, {launch.threads, launch.stream}, sizes, residual, compiled.choose(Pass::Forward, sizes));
  if (residual)
    residual->kernel = compiled.weak_from_this();
}

/// Inputs without memory, and the output.
struct Blanks {
  std::vector<TensorRef> inputs;
  TensorRef output;
};

Blanks makeBlanks(const runtime::Compiled &compiled, const runtime::Sizes &sizes) {
  const auto make = [&](Side side, const std::vector<int64_t> &row) {
    Shape shape{sizes.batch, sizes.heads, side == Side::Key ? sizes.keyLength : sizes.queryLength};
    shape.insert(shape.end(), row.begin(), row.end());
    TensorRef ref(static_cast<void *>(nullptr), compiled.options.dtype, shape);
    ref.device = compiled.device ? compiled.device->ordinal() : TensorRef::kHost;
    return ref;
  };
  Blanks blanks;
  for (const InputInfo &input : compiled.instance.inputs)
    blanks.inputs.push_back(make(input.side, input.shape));
  blanks.output = make(Side::Query, compiled.instance.output);
  return blanks;
}

runtime::Sizes sizesOf(const runtime::Compiled &compiled, const Prepare &options) {
  const int64_t keys = options.keyLength ? options.keyLength : options.queryLength;
  const std::pair<const char *, int64_t> sizes[] = {
      {"batch", options.batch}, {"heads", options.heads}, {"queryLength", options.queryLength}, {"keyLength", keys}};
  for (const auto &[name, size] : sizes)
    if (size < 1)
      throw Error(fmt::format("argument '{}': expected 1 or more, found {}", name, size));
  if (compiled.equalLengths && keys != options.queryLength)
    throw Error(fmt::format("argument 'keyLength': expected {}, as queryLength, found {}", options.queryLength, keys));
  return {options.batch, options.heads, options.queryLength, keys};
}

} // namespace

Kernel::Kernel(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}
Kernel::Kernel(const Kernel &) = default;
Kernel::Kernel(Kernel &&) noexcept = default;
Kernel &Kernel::operator=(const Kernel &) = default;
Kernel &Kernel::operator=(Kernel &&) noexcept = default;
Kernel::~Kernel() = default;

const std::vector<TensorInfo> &Kernel::tensors() const { return impl->compiled->tensors; }

std::vector<std::string> Kernel::losses() const {
  std::vector<std::string> names;
  for (const LossInfo &loss : impl->compiled->instance.losses)
    names.push_back(loss.name);
  return names;
}

DType Kernel::dtype() const { return impl->compiled->options.dtype; }
double Kernel::compileMilliseconds() const { return impl->compileMilliseconds; }

int64_t Kernel::scratchBytes() const {
  const std::shared_ptr<const compiler::Program> &program = impl->compiled->program;
  return program ? program->scratchBytes : 0;
}

double Kernel::necessaryMultiplyAdds(int64_t batch, int64_t heads, int64_t queryLength, int64_t keyLength) const {
  const std::shared_ptr<const compiler::Program> &program = impl->compiled->program;
  if (!program)
    return 0;
  const double ofHead =
      program->multiplyAddsPerQuery * static_cast<double>(queryLength) +
      program->multiplyAddsPerKey * static_cast<double>(keyLength) +
      program->multiplyAddsPerPair * static_cast<double>(queryLength) * static_cast<double>(keyLength);
  return ofHead * static_cast<double>(batch) * static_cast<double>(heads);
}

void Kernel::forward(std::initializer_list<TensorRef> inputs, const Parameters &parameters, const TensorRef &output,
                     const Launch &launch) const {
  forwardChecked(*impl->compiled, {{inputs.begin(), inputs.size()}, parameters, output}, launch);
}

void Kernel::forward(const std::vector<TensorRef> &inputs, const Parameters &parameters, const TensorRef &output,
                     const Launch &launch) const {
  forwardChecked(*impl->compiled, {inputs, parameters, output}, launch);
}

void Kernel::forward(const std::vector<TensorRef> &inputs, const DeviceParameters &parameters, const TensorRef &output,
                     const Launch &launch) const {
  forwardChecked(*impl->compiled, {inputs, parameters, output}, launch);
}

DeviceParameters Kernel::upload(const Parameters &parameters, void *stream) const {
  checkStream(*impl->compiled, stream);
  DeviceParameters uploaded;
  uploaded.data().device = impl->compiled->device;
  std::vector<DeviceParameters::Impl::Wanted> wanted;
  for (const Parameters::Entry &entry : parameters)
    wanted.push_back({entry.name, entry.tensor.dtype(), entry.tensor.shape()});
  uploaded.data().allocate(wanted, stream, "parameters");
  uploaded.update(parameters, stream);
  return uploaded;
}

void Kernel::prepare(const Prepare &options) const {
  const runtime::Compiled &compiled = *impl->compiled;
  checkStream(compiled, options.stream);
  const runtime::Sizes sizes = sizesOf(compiled, options);
  Residual::Impl *residual = options.residual ? &options.residual->data() : nullptr;
  const Blanks blanks = makeBlanks(compiled, sizes);
  if (residual && compiled.isReference())
    residual->prepare(compiled, sizes, options.stream);
  if (!compiled.isReference()) // smaller launches may have other schedules; that of the largest comes last
    for (const runtime::Choice *choice : compiled.choices.upTo(compiled, Pass::Forward, sizes)) {
      if (residual)
        residual->prepare(compiled, sizes, options.stream, choice->forward->chunk);
      if (compiled.device)
        compute(compiled, {blanks.inputs, HeadTensors::blank(), blanks.output},
                {.stream = options.stream, .prepares = true}, sizes, residual, *choice);
    }
  if (options.backward || options.gradients)
    runtime::prepareBackward(compiled, blanks.inputs, blanks.output, options, sizes);
}

} // namespace yaglom
