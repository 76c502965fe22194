// The public Kernel: what it takes and forward launches. Draws and losses are in Draw.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/kernel.h"

#include "runtime/Arguments.h"
#include "runtime/Compiled.h"
#include "runtime/Interpret.h"
#include "runtime/Launch.h"
#include "runtime/Residual.h"

#include <fmt/format.h>

#include <span>

namespace yaglom {
namespace {

void checkThreads(const Launch &launch) {
  if (launch.threads < 0)
    throw Error(fmt::format("threads must be 0 or more, found {}", launch.threads));
}

/// The operands of the forward function, in a buffer that each thread keeps: a warm launch allocates nothing.
std::span<const runtime::Operand> bindForward(const runtime::Compiled &compiled, std::span<const TensorRef> inputs,
                                              const Parameters &parameters, const TensorRef &output) {
  thread_local std::vector<runtime::Operand> operands;
  operands.clear();
  for (const runtime::OperandSource &source : compiled.forward.operands) {
    switch (source.kind) {
    case runtime::OperandSource::Kind::Input:
      operands.push_back(runtime::bindTensor(inputs[source.index], false));
      break;
    case runtime::OperandSource::Kind::Output:
      operands.push_back(runtime::bindTensor(output, true));
      break;
    case runtime::OperandSource::Kind::Head: {
      const runtime::HeadTensor &info = compiled.headTensors[source.index];
      operands.push_back(bindHeadTensor(info, parameters[info.name], false));
      break;
    }
    }
  }
  return operands;
}

/// All arguments are checked, and there is work.
void compute(const runtime::Compiled &compiled, std::span<const TensorRef> inputs, const Parameters &parameters,
             const TensorRef &output, int threads, const runtime::Sizes &sizes, Residual::Impl *residual) {
  if (compiled.isReference())
    return runtime::interpretForward(compiled, inputs, parameters, output);
  const runtime::Grid grid{sizes.batch, sizes.heads, sizes.queryLength, sizes.keyLength};
  const std::span<const runtime::Operand> operands = bindForward(compiled, inputs, parameters, output);
  const compiler::Program &program = *compiled.program;
  if (residual && residual->keeps != compiler::Keeps::Nothing)
    return runtime::launchKeeping(
        program, grid, operands, compiled.options.dtype, threads,
        {residual->keeps, residual->item(0), residual->itemBytes, residual->states, residual->segmentRows});
  runtime::launchForward(program, grid, operands, compiled.options.dtype, threads);
}

void forwardChecked(const runtime::Compiled &compiled, std::span<const TensorRef> inputs, const Parameters &parameters,
                    const TensorRef &output, const Launch &launch) {
  checkThreads(launch);
  const runtime::Sizes sizes = checkForward(compiled, inputs, parameters, output);
  Residual::Impl *residual = launch.residual ? &launch.residual->data() : nullptr;
  if (residual)
    residual->prepare(compiled, sizes);
  if (sizes.batch && sizes.heads && sizes.queryLength)
    compute(compiled, inputs, parameters, output, launch.threads, sizes, residual);
  if (residual)
    residual->kernel = compiled.weak_from_this();
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
  forwardChecked(*impl->compiled, {inputs.begin(), inputs.size()}, parameters, output, launch);
}

void Kernel::forward(const std::vector<TensorRef> &inputs, const Parameters &parameters, const TensorRef &output,
                     const Launch &launch) const {
  forwardChecked(*impl->compiled, inputs, parameters, output, launch);
}

} // namespace yaglom
