// Random tensors of a Kernel: initial parameters, noise, draws and losses.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Draw.h"
#include "runtime/Arguments.h"
#include "runtime/Compiled.h"
#include "runtime/Interpret.h"
#include "runtime/Launch.h"
#include "runtime/Prepare.h"
#include "support/Random.h"

#include <fmt/format.h>

namespace yaglom {
namespace runtime {

/// Standard normals under the tensor's own name: any entry can be made alone.
static Tensor makeNoise(const HeadTensor &info, int64_t heads, uint64_t seed, DType dtype) {
  Tensor noise(dtype, info.shapeFor(heads));
  const int64_t perHead = info.elements();
  for (int64_t head = 0; head < (info.shared ? 1 : heads); ++head) {
    const NormalStream stream(seed, info.name, static_cast<uint64_t>(head));
    for (int64_t i = 0; i < perHead; ++i)
      noise.set(head * perHead + i, stream(static_cast<uint64_t>(i)));
  }
  return noise;
}

Tensor findNoise(const Compiled &compiled, const std::string &name, const Parameters &parameters, int64_t heads,
                 uint64_t seed) {
  const HeadTensor &info = compiled.headTensors[compiled.headTensor(name)];
  const Tensor *supplied = parameters.find(name);
  if (!supplied)
    return makeNoise(info, heads, seed, compiled.parameterType());
  checkHeadTensor(info, supplied, heads, compiled.parameterType());
  return *supplied;
}

Tensor prepareRows(const Compiled &compiled, const std::string &operand, const compiler::PreparedOperand &prepared,
                   const Parameters &parameters, const Tensor &noise, int64_t heads) {
  if (prepared.kind == compiler::PreparedOperand::Kind::Component)
    for (const std::string &name : {prepared.table, prepared.alpha})
      checkHeadTensor(compiled.headTensors[compiled.headTensor(name)], parameters.find(name), heads,
                      compiled.parameterType());
  const HeadTensor &info = compiled.headTensors[compiled.headTensor(operand)];
  return prepare(prepared, info, noise, parameters, heads);
}

std::size_t findLoss(const Instance &instance, const std::string &name) {
  std::string known;
  for (std::size_t i = 0; i < instance.losses.size(); ++i) {
    if (instance.losses[i].name == name)
      return i;
    known += (i ? ", '" : "'") + instance.losses[i].name + "'";
  }
  throw Error(fmt::format("no loss '{}' belongs to '{}'; there {}", name, instance.attention->id.name,
                          known.empty() ? "is none" : "is " + known));
}

int64_t countHeads(const Compiled &compiled, const Parameters &parameters) {
  bool allShared = true;
  for (const HeadTensor &info : compiled.headTensors) {
    allShared &= info.shared;
    const Tensor *tensor = parameters.find(info.name);
    if (tensor && !info.shared && tensor->shape().size() == info.shape.size() + 1)
      return tensor->shape()[0];
  }
  if (!allShared)
    throw Error("no parameter tells the number of heads; start from initialParameters()");
  return 1;
}

} // namespace runtime

namespace {

using runtime::Compiled;
using runtime::HeadTensor;

/// Runs a function of heads: its operands are looked up in `made`, which has its outputs, then in `parameters`.
void runPlan(const Compiled &compiled, const runtime::Plan &plan, Parameters &made, const Parameters &parameters,
             const runtime::Grid &grid, int64_t heads) {
  std::vector<runtime::Operand> operands;
  for (const runtime::OperandSource &source : plan.operands) {
    const HeadTensor &info = compiled.headTensors[source.index];
    const Tensor *tensor = made.find(info.name);
    if (!tensor)
      checkHeadTensor(info, tensor = parameters.find(info.name), heads, compiled.parameterType());
    operands.push_back(bindHeadTensor(info, *tensor, source.written));
  }
  // On the calling thread: the caller was not asked how many others it may take.
  const runtime::Execution how(compiled.device, {.threads = 1});
  runtime::launch(*plan.entry, compiled.program->scratchBytes, grid, operands, compiled.parameterType(), how);
  how.finish();
}

/// The tensors of draw `index`, drawn from `noise` by compiled code.
void drawOne(const Compiled &compiled, std::size_t index, Parameters &parameters, Tensor noise, int64_t heads) {
  const DrawInfo &draw = compiled.instance.draws[index];
  Parameters made;
  for (const std::string &name : draw.names)
    made.set(name, Tensor(compiled.parameterType(), compiled.headTensors[compiled.headTensor(name)].shapeFor(heads)));
  for (const std::string &operand : compiled.draws[index].entry->operands)
    if (const auto prepared = compiler::PreparedOperand::parse(operand))
      made.set(operand, runtime::prepareRows(compiled, operand, *prepared, parameters, noise, heads));
  made.set(draw.noiseName(), std::move(noise));
  const runtime::Grid grid{.heads = draw.shared ? 1 : heads, .queryRows = draw.rows};
  runPlan(compiled, compiled.draws[index], made, parameters, grid, heads);
  for (const std::string &name : draw.names)
    parameters.set(name, std::move(made[name]));
}

void drawAll(const Compiled &compiled, Parameters &parameters, int64_t heads, uint64_t seed) {
  Parameters noise;
  for (const DrawInfo &draw : compiled.instance.draws)
    noise.set(draw.noiseName(), runtime::findNoise(compiled, draw.noiseName(), parameters, heads, seed));
  if (compiled.isReference())
    return runtime::interpretDraws(compiled, parameters, noise, heads);
  for (std::size_t i = 0; i < compiled.instance.draws.size(); ++i)
    drawOne(compiled, i, parameters, std::move(noise[compiled.instance.draws[i].noiseName()]), heads);
}

} // namespace

Parameters Kernel::initialParameters(int64_t heads, uint64_t seed) const {
  if (heads < 0)
    throw Error(fmt::format("the number of heads must be 0 or more, found {}", heads));
  Parameters parameters = runtime::initialParameters(*impl->compiled, heads, seed);
  drawAll(*impl->compiled, parameters, heads, seed);
  return parameters;
}

void Kernel::draw(Parameters &parameters, uint64_t seed) const {
  if (!impl->compiled->instance.draws.empty())
    drawAll(*impl->compiled, parameters, runtime::countHeads(*impl->compiled, parameters), seed);
}

Parameters Kernel::noise(int64_t heads, uint64_t seed) const {
  if (heads < 0)
    throw Error(fmt::format("the number of heads must be 0 or more, found {}", heads));
  const Compiled &compiled = *impl->compiled;
  Parameters noise;
  const auto add = [&](const std::string &name) {
    const HeadTensor &info = compiled.headTensors[compiled.headTensor(name)];
    noise.set(name, runtime::makeNoise(info, heads, seed, compiled.parameterType()));
  };
  for (const DrawInfo &draw : compiled.instance.draws)
    add(draw.noiseName());
  for (const LossInfo &loss : compiled.instance.losses)
    add(loss.name + ".noise");
  return noise;
}

std::vector<double> Kernel::loss(const std::string &name, const Parameters &parameters, uint64_t seed) const {
  const Compiled &compiled = *impl->compiled;
  const LossInfo &info = compiled.instance.losses[runtime::findLoss(compiled.instance, name)];
  const int64_t heads = info.shared ? 1 : runtime::countHeads(compiled, parameters);
  Tensor noise = runtime::findNoise(compiled, name + ".noise", parameters, heads, seed);
  return runtime::interpretLoss(compiled, name, parameters, noise, heads);
}

} // namespace yaglom
