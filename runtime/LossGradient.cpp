// Gradients of losses: the compiled gradient of one sample's part, over all samples, and the weights' own gradient.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"
#include "runtime/Arguments.h"
#include "runtime/Backward.h"
#include "runtime/Draw.h"
#include "runtime/Interpret.h"
#include "runtime/Launch.h"
#include "runtime/Prepare.h"

#include <algorithm>
#include <cmath>

namespace yaglom {
namespace {

using runtime::Compiled;
using runtime::HeadTensor;

class LossGradient {
public:
  LossGradient(const Compiled &compiled, std::size_t index, const Parameters &parameters, uint64_t seed)
      : compiled(compiled), loss(compiled.instance.losses[index]), program(compiled.lossGradient(index)),
        parameters(parameters), heads(loss.shared ? 1 : runtime::countHeads(compiled, parameters)),
        noise(runtime::findNoise(compiled, loss.name + ".noise", parameters, heads, seed)) {}

  Gradients run() {
    makeWeights();
    const compiler::GradientEntry &entry = program.backward;
    const std::size_t inputs = entry.operands.size() - entry.gradients.size();
    std::vector<Tensor> tensors(entry.operands.size());
    std::vector<runtime::Operand> operands;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      HeadTensor info = infoOf(baseOf(entry.operands[i], i >= inputs - 1));
      if (i >= inputs)
        info.shared = false; // each head's own part
      tensors[i] = i < inputs ? valueOf(entry.operands[i], info) : Tensor(noise.dtype(), info.shapeFor(heads));
      operands.push_back(bindHeadTensor(info, tensors[i], i >= inputs));
    }
    const runtime::Grid grid{.heads = heads, .queryRows = loss.samples};
    const runtime::Execution how(compiled.device, {.threads = 1});
    runtime::launch(entry, program.scratchBytes, grid, operands, noise.dtype(), how);
    how.finish();
    Gradients gradients;
    for (std::size_t i = inputs; i < tensors.size(); ++i)
      collect(baseOf(entry.operands[i], true), tensors[i], gradients);
    return gradients;
  }

private:
  /// Operand names without "grad.".
  static std::string baseOf(const std::string &name, bool isGradient) { return isGradient ? name.substr(5) : name; }

  /// Name and shape of an operand; rows of one number have width 1.
  HeadTensor infoOf(const std::string &name) const {
    if (name == loss.name || name == "weight of " + loss.name)
      return {name, false, {loss.samples, 1}};
    if (const auto prepared = compiler::PreparedOperand::parse(name)) {
      if (prepared->kind == compiler::PreparedOperand::Kind::Orthogonalize)
        return {name, false, {loss.samples, loss.noiseWidth}};
      std::vector<int64_t> shape = compiled.headTensors[compiled.headTensor(prepared->table)].shape;
      shape[0] = loss.samples;
      if (shape.size() == 1)
        shape.push_back(1);
      return {name, false, shape};
    }
    return compiled.headTensors[compiled.headTensor(name)];
  }

  Tensor valueOf(const std::string &name, const HeadTensor &info) const {
    if (name == "grad." + loss.name) {
      Tensor ones(noise.dtype(), info.shapeFor(heads));
      for (int64_t i = 0; i < ones.size(); ++i)
        ones.set(i, 1);
      return ones;
    }
    if (name == "weight of " + loss.name)
      return weights;
    if (name == loss.name + ".noise")
      return noise;
    if (const auto prepared = compiler::PreparedOperand::parse(name)) {
      for (const std::string &table : {prepared->table, prepared->alpha})
        if (!table.empty())
          checkHeadTensor(infoOf(table), parameters.find(table), heads, noise.dtype());
      return runtime::prepare(*prepared, info, noise, parameters, heads);
    }
    checkHeadTensor(info, parameters.find(name), heads, noise.dtype());
    return parameters[name];
  }

  const SamplerInfo &samplerOfP() const {
    const std::vector<SamplerInfo> &samplers = compiled.instance.samplers;
    return *std::find_if(samplers.begin(), samplers.end(),
                         [&](const SamplerInfo &info) { return info.name == loss.p; });
  }

  double alphaAt(const Tensor &alpha, int64_t head, int64_t q) const {
    return alpha.at((alpha.shape().size() == 1 ? 0 : head * alpha.shape()[1]) + q);
  }

  /// softmax(alpha) of head `head`.
  std::vector<double> shares(const Tensor &alpha, int64_t head) const {
    std::vector<double> share(static_cast<std::size_t>(alpha.shape().back()));
    double most = -INFINITY, total = 0;
    for (std::size_t q = 0; q < share.size(); ++q)
      most = std::max(most, share[q] = alphaAt(alpha, head, static_cast<int64_t>(q)));
    for (double &x : share)
      total += x = std::exp(x - most);
    for (double &x : share)
      x /= total;
    return share;
  }

  /// Equal ones; of a mixture the weight of a sample's component, shared among the component's samples.
  void makeWeights() {
    weights = Tensor(noise.dtype(), {heads, loss.samples, 1});
    const bool allocated = findSamplerKind(samplerOfP().kind)->allocated;
    if (allocated)
      checkHeadTensor(infoOf(loss.p + ".alpha"), parameters.find(loss.p + ".alpha"), heads, noise.dtype());
    for (int64_t head = 0; head < heads; ++head) {
      std::vector<int64_t> components;
      std::vector<double> share, counts;
      if (allocated) {
        const Tensor &alpha = parameters[loss.p + ".alpha"];
        components = runtime::allocate(alpha, head, loss.samples);
        share = shares(alpha, head);
        counts.resize(share.size());
        for (int64_t q : components)
          ++counts[static_cast<std::size_t>(q)];
      }
      for (int64_t i = 0; i < loss.samples; ++i) {
        const std::size_t q = allocated ? static_cast<std::size_t>(components[static_cast<std::size_t>(i)]) : 0;
        weights.set(head * loss.samples + i,
                    allocated ? share[q] / counts[q] : 1.0 / static_cast<double>(loss.samples));
      }
    }
  }

  void collect(const std::string &name, const Tensor &items, Gradients &gradients) const {
    if (name == loss.name + ".noise")
      return;
    if (name == "weight of " + loss.name)
      return collectAlpha(items, gradients);
    if (const auto prepared = compiler::PreparedOperand::parse(name)) {
      if (prepared->kind == compiler::PreparedOperand::Kind::Component)
        runtime::scatter(compiled, infoOf(name), items, *prepared, parameters, heads, gradients);
      return;
    }
    runtime::addTo(gradients, "grad." + name, runtime::sumItems(infoOf(name), items, 1, heads));
  }

  /// A weight is softmax(alpha)_q / count: its gradient reaches alpha although the allocation does not depend on it.
  void collectAlpha(const Tensor &byWeight, Gradients &gradients) const {
    if (!findSamplerKind(samplerOfP().kind)->allocated)
      return;
    const std::string name = loss.p + ".alpha";
    const Tensor &alpha = parameters[name];
    Tensor items(noise.dtype(), {1, heads, alpha.shape().back()});
    for (int64_t head = 0; head < heads; ++head) {
      const std::vector<int64_t> components = runtime::allocate(alpha, head, loss.samples);
      const std::vector<double> share = shares(alpha, head);
      std::vector<double> sums(share.size());
      double total = 0;
      for (int64_t i = 0; i < loss.samples; ++i) {
        const int64_t place = head * loss.samples + i;
        const double part = byWeight.at(place) * weights.at(place);
        sums[static_cast<std::size_t>(components[static_cast<std::size_t>(i)])] += part;
        total += part;
      }
      for (std::size_t q = 0; q < share.size(); ++q)
        items.set(head * static_cast<int64_t>(share.size()) + static_cast<int64_t>(q), sums[q] - share[q] * total);
    }
    runtime::addTo(gradients, "grad." + name, runtime::sumItems(infoOf(name), items, 1, heads));
  }

  const Compiled &compiled;
  const LossInfo &loss;
  const compiler::LossProgram &program;
  const Parameters &parameters;
  const int64_t heads;
  const Tensor noise;
  Tensor weights; ///< [heads, samples, 1]
};

} // namespace

Gradients Kernel::lossGradient(const std::string &name, const Parameters &parameters, uint64_t seed) const {
  const Compiled &compiled = *impl->compiled;
  const std::size_t index = runtime::findLoss(compiled.instance, name);
  if (compiled.isReference()) {
    const LossInfo &loss = compiled.instance.losses[index];
    const int64_t heads = loss.shared ? 1 : runtime::countHeads(compiled, parameters);
    return runtime::interpretLossGradient(
        compiled, loss, parameters, runtime::findNoise(compiled, loss.name + ".noise", parameters, heads, seed), heads);
  }
  return LossGradient(compiled, index, parameters, seed).run();
}

} // namespace yaglom
