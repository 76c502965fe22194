// The list of tensors that a user sees: names, roles, axes and initial values.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compiled.h"

#include "compiler/Program.h"
#include "frontend/Printer.h"
#include "runtime/State.h"

#include <algorithm>

namespace yaglom::runtime {
namespace {

std::vector<std::string> tokenAxes(Side side, const std::vector<int64_t> &row, bool equalLengths) {
  std::vector<std::string> axes = {"B", "H", side == Side::Key && !equalLengths ? "M" : "N"};
  for (int64_t size : row)
    axes.push_back(std::to_string(size));
  return axes;
}

std::vector<std::string> headAxes(bool shared, const std::vector<int64_t> &shape) {
  std::vector<std::string> axes;
  if (!shared)
    axes.push_back("H");
  for (int64_t size : shape)
    axes.push_back(std::to_string(size));
  return axes;
}

/// "~ gaussian(scale = d^(-1/4))"
std::string drawText(const ast::DrawSpec &draw) {
  std::string options;
  for (const ast::NamedArg &option : draw.options)
    options += (options.empty() ? "" : ", ") + option.name + " = " + print(*option.value);
  return "~ " + draw.sampler.name + (options.empty() ? "" : "(" + options + ")");
}

/// A declared sampler by its name, another one as it is written.
std::string samplerText(const DrawInfo &draw) {
  return draw.sampler == draw.kind ? drawText(draw.draw) : "~ " + draw.sampler;
}

std::string initialText(const ParameterInfo &parameter) {
  if (parameter.draw)
    return drawText(*parameter.draw);
  return parameter.initial ? print(*parameter.initial) : "";
}

/// How many log scales each state has: one where exponents need not be tracked, for every state has its `a`.
std::vector<int64_t> scaleCounts(const std::vector<LinearState> &states, std::vector<compiler::LogScales> tracked) {
  std::vector<int64_t> counts;
  for (const LinearState &state : states) {
    const auto found = std::find_if(tracked.begin(), tracked.end(),
                                    [&](const auto &scales) { return scales.position == state.position; });
    counts.push_back(found == tracked.end() ? 1 : found->count);
    if (found != tracked.end())
      tracked.erase(found);
  }
  return counts;
}

void addStates(const Instance &instance, const std::vector<compiler::LogScales> &logScales,
               std::vector<TensorInfo> &tensors) {
  const std::vector<LinearState> states = linearStates(instance);
  const std::vector<int64_t> scales = scaleCounts(states, logScales);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::string &prefix = states[i].prefix, features = std::to_string(states[i].features);
    const auto add = [&](const char *name, std::vector<std::string> axes, const char *initial) {
      tensors.push_back({prefix + name, TensorRole::State, std::move(axes), initial});
    };
    add("S", {"B", "H", features, std::to_string(states[i].width)}, "0");
    add("z", {"B", "H", features}, "0");
    add("a", {"B", "H", std::to_string(scales[i])}, "-inf");
    add("G", {"B", "H"}, "0");
  }
  if (!states.empty())
    tensors.push_back({"state.n", TensorRole::State, {"B"}, "0"});
}

} // namespace

std::vector<TensorInfo> describeTensors(const Instance &instance, bool equalLengths,
                                        const std::vector<compiler::LogScales> &logScales) {
  std::vector<TensorInfo> tensors;
  for (const InputInfo &input : instance.inputs)
    tensors.push_back({input.name, TensorRole::Input, tokenAxes(input.side, input.shape, equalLengths), ""});
  for (const ParameterInfo &parameter : instance.parameters)
    tensors.push_back(
        {parameter.name, TensorRole::Parameter, headAxes(parameter.shared, parameter.shape), initialText(parameter)});
  for (const DrawInfo &draw : instance.draws)
    for (const std::string &name : draw.names)
      tensors.push_back({name, TensorRole::Draw,
                         headAxes(draw.shared, {draw.rows, draw.width / static_cast<int64_t>(draw.names.size())}),
                         samplerText(draw)});
  for (const DrawInfo &draw : instance.draws)
    tensors.push_back({draw.noiseName(), TensorRole::Noise, headAxes(draw.shared, {draw.rows, draw.noiseWidth}), ""});
  for (const LossInfo &loss : instance.losses)
    tensors.push_back(
        {loss.name + ".noise", TensorRole::Noise, headAxes(loss.shared, {loss.samples, loss.noiseWidth}), ""});
  tensors.push_back({"O", TensorRole::Output, tokenAxes(Side::Query, instance.output, equalLengths), ""});
  addStates(instance, logScales, tensors);
  return tensors;
}

} // namespace yaglom::runtime
