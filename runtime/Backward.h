// What gradients share, of attentions, draws and losses, on the host and on GPUs: arguments, sums, the way through draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Arguments.h"
#include "runtime/Compiled.h"
#include "yaglom/kernel.h"

namespace yaglom::runtime {

/// Sums `items` [batch, heads, ...] over batch, and over heads when they share the tensor: always in this order, in float64.
Tensor sumItems(const HeadTensor &info, const Tensor &items, int64_t batch, int64_t heads);

/// Sets `name` to `more` plus what there is.
void addTo(Parameters &gradients, const std::string &name, Tensor more);

/// Rows of a table that a draw took by allocation: their gradients `from` [H, rows, width] are added to those of the table.
void scatter(const Compiled &compiled, const HeadTensor &rows, const Tensor &from,
             const compiler::PreparedOperand &prepared, const Parameters &parameters, int64_t heads,
             Parameters &gradients);

/// All arguments of a backward launch, as the caller gave them.
struct BackwardArguments {
  std::span<const TensorRef> inputs;
  const HeadTensors &parameters;
  const TensorRef &grad;
  const Backward &options;

  const Residual::Impl *residual() const { return options.residual ? &options.residual->data() : nullptr; }
};

/// The gradients that run this launch: by the schedule for its sizes, with the chunk of the residual if there
/// is one. Throws Error.
const compiler::BackwardProgram &chooseBackward(const Compiled &compiled, const Sizes &sizes,
                                                const Residual::Impl *residual);

/// Those of all launches up to these sizes, with residuals if there is one; that of the largest is the last.
std::vector<const compiler::BackwardProgram *> backwardPrograms(const Compiled &compiled, const Sizes &sizes,
                                                                const Residual::Impl *residual);

/// Checks them all and returns the sizes of the launch. Throws Error.
Sizes checkBackward(const Compiled &compiled, const BackwardArguments &given);

/// The tensors of heads that have a gradient: every parameter that is given, and every draw.
std::vector<const HeadTensor *> differentiated(const Compiled &compiled, const HeadTensors &parameters);

/// True when parameters of the sampler behind draw `index` are given: without them the draw is data, and nothing stands
/// behind it.
bool reachesSampler(const Compiled &compiled, std::size_t index, const HeadTensors &parameters);

/// From the gradient of draw `index` in `gradients` to the parameters of its sampler, which are added there. All is on the host,
/// and copied to and from a GPU where that is what the kernel is for.
void backwardDraw(const Compiled &compiled, const compiler::BackwardProgram &program, std::size_t index,
                  const Parameters &parameters, int64_t heads, const Backward &options, Parameters &gradients);

/// Kernel::backward and accumulate with gradients that stay on the GPU.
void backwardOnDevice(const Compiled &compiled, const BackwardArguments &given, DeviceGradients &gradients, bool adds);

/// Kernel::prepare for backward launches. `inputs` and `grad` have no memory.
void prepareBackward(const Compiled &compiled, std::span<const TensorRef> inputs, const TensorRef &grad,
                     const Prepare &options, const Sizes &sizes);

} // namespace yaglom::runtime
