// Gradients that stay on a GPU: one launch, then sums over the items in a fixed order, there too.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Backward.h"
#include "runtime/DeviceParameters.h"
#include "runtime/GradientLaunch.h"
#include "runtime/Overlap.h"
#include "runtime/Residual.h"
#include "runtime/SumKernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace yaglom::runtime {
namespace {

using Wanted = DeviceGradients::Impl::Wanted;

int64_t elementsOf(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

char *dataOf(const TensorRef &ref) { return static_cast<char *>(const_cast<void *>(ref.data)); }

class DeviceBackward {
public:
  DeviceBackward(const Compiled &compiled, const BackwardArguments &given, const Sizes &sizes,
                 DeviceGradients &gradients, bool adds, const compiler::BackwardProgram *prepared = nullptr)
      : compiled(compiled), given(given), sizes(sizes), gradients(gradients), adds(adds), prepares(prepared),
        prepared(prepared), residual(given.residual()) {}

  /// Gives `gradients` the tensors that it lacks, zero; throws when one it has does not fit.
  void makeRoom() {
    gradients.data().bind(compiled.device, "gradients");
    std::vector<Wanted> lacking;
    const auto want = [&](const std::string &name, DType dtype, const Shape &shape) {
      if (!gradients.contains(name)) {
        lacking.push_back({name, dtype, shape});
      } else if (const TensorRef there = gradients[name]; there.dtype != dtype || there.shape != shape) {
        throw Error(fmt::format("argument '{}': expected {} [{}], as the gradient is, found {} [{}]", name,
                                toText(dtype), fmt::join(shape, ", "), toText(there.dtype),
                                fmt::join(there.shape, ", ")));
      }
    };
    const std::vector<InputInfo> &infos = compiled.instance.inputs;
    for (std::size_t i = 0; i < infos.size(); ++i)
      want("grad." + infos[i].name, compiled.options.dtype, given.inputs[i].shape);
    for (const HeadTensor *info : tensors())
      want("grad." + info->name, compiled.parameterType(), info->shapeFor(sizes.heads));
    checkOverlap();
    if (lacking.empty())
      return;
    gradients.data().allocate(lacking, given.options.stream, "gradients");
    const Execution how(compiled.device, {.stream = given.options.stream});
    for (const Wanted &made : lacking)
      zero(made.name, *how.session);
    how.finish();
  }

  void run() {
    const SessionOptions options{given.options.threads, given.options.stream, prepares};
    Gradients ofDraws;
    {
      const Execution how(compiled.device, options);
      session = how.session.get();
      clear();
      if (sizes.batch && sizes.heads) {
        launch(how);
        sum(ofDraws);
      }
      how.finish();
    }
    if (ofDraws.size() && !prepares)
      goThroughDraws(ofDraws, options);
  }

private:
  std::vector<const HeadTensor *> tensors() const { return differentiated(compiled, given.parameters); }

  void checkOverlap() const {
    std::vector<TensorRef> read(given.inputs.begin(), given.inputs.end());
    read.push_back(given.grad);
    for (const DeviceGradients::Impl::Entry &entry : gradients.data().entries)
      for (const TensorRef &argument : read)
        if (argument.data && argument.dtype == entry.ref.dtype && overlap(entry.ref, argument))
          throw Error(fmt::format("argument '{}': overlaps an argument that is read", entry.name));
  }

  void zero(const std::string &name, GpuSession &with) const {
    const TensorRef ref = gradients[name];
    with.zero(dataOf(ref), bytesOf(ref.dtype, ref.shape));
  }

  /// Zeros, unless they are added to, for tensors that the kernel may not write: those of heads, and all where there is no query.
  void clear() {
    if (adds)
      return;
    for (const HeadTensor *info : tensors())
      zero("grad." + info->name, *session);
    for (const InputInfo &info : compiled.instance.inputs)
      if (!sizes.queryLength)
        zero("grad." + info.name, *session);
  }

  Operand operandOf(const std::string &name, bool isResult) {
    if (name == "grad.O")
      return bindTensor(given.grad, false);
    const std::vector<InputInfo> &infos = compiled.instance.inputs;
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (name == infos[i].name)
        return bindTensor(given.inputs[i], false);
      if (name == "grad." + infos[i].name)
        return inputGradient(name);
    }
    const HeadTensor &info = compiled.headTensors[compiled.headTensor(isResult ? tensorOf(name) : name)];
    if (!isResult)
      return bindHeadTensor(info, *given.parameters.find(name), false);
    HeadMemory memory;
    memory.dtype = compiled.parameterType();
    memory.device = 0; // of the device, whichever it is
    const auto bytes = static_cast<std::size_t>(sizes.batch * sizes.heads * info.elements()) * sizeOf(memory.dtype);
    char *items = session->lend(bytes);
    session->zero(items, bytes);
    memory.data = items;
    made.push_back({&info, items});
    return bindPerItem(info, memory, sizes.heads);
  }

  /// The tensor itself, or, when it is added to, memory for what is added.
  Operand inputGradient(const std::string &name) {
    TensorRef ref = gradients[name];
    if (adds) {
      ref.data = session->lend(bytesOf(ref.dtype, ref.shape));
      fresh.push_back({name, ref});
    }
    Operand operand = bindTensor(ref, true);
    operand.onDevice = true;
    return operand;
  }

  void launch(const Execution &how) {
    const Grid grid{sizes.batch, sizes.heads, sizes.queryLength, sizes.keyLength, residual ? residual->segmentRows : 0};
    GradientLaunch{compiled, program(), program().backward, grid, residual}.run(
        [&](const std::string &name, bool isResult) { return operandOf(name, isResult); }, how);
  }

  /// Sums over items to `gradients`; those of draws from samplers with parameters also to the host.
  void sum(Gradients &ofDraws) {
    for (const auto &[name, ref] : fresh)
      sumItems(*compiled.device,
               {ref.dtype, dataOf(ref), dataOf(gradients[name]), elementsOf(ref.shape), 1, 1, false, true}, *session);
    for (const auto &[info, items] : made) {
      const std::string name = "grad." + info->name;
      ItemSum sum{compiled.parameterType(), items, nullptr, info->elements(), sizes.heads, sizes.batch, info->shared};
      if (leadsOn(info->name)) {
        Tensor onHost(sum.dtype, info->shapeFor(sizes.heads));
        const std::size_t bytes = bytesOf(sum.dtype, onHost.shape());
        sum.sums = session->lend(bytes);
        sumItems(*compiled.device, sum, *session);
        session->download(onHost.data(), sum.sums, bytes);
        ofDraws.set(name, std::move(onHost));
      }
      if (!gradients.contains(name))
        continue;
      sum.sums = dataOf(gradients[name]);
      sum.adds = adds;
      sumItems(*compiled.device, sum, *session);
    }
  }

  /// Is it a draw from a sampler whose parameters are given?
  bool leadsOn(const std::string &name) const {
    if (prepares)
      return false;
    const std::vector<DrawInfo> &draws = compiled.instance.draws;
    for (std::size_t i = 0; i < draws.size(); ++i)
      if (std::find(draws[i].names.begin(), draws[i].names.end(), name) != draws[i].names.end())
        return reachesSampler(compiled, i, given.parameters);
    return false;
  }

  /// By way of the host: rows are allocated to components and orthogonalised there.
  void goThroughDraws(Gradients &sums, const SessionOptions &options) {
    Parameters copies;
    const Parameters &parameters = given.parameters.onHost(copies, options.stream);
    for (std::size_t i = 0; i < compiled.instance.draws.size(); ++i)
      backwardDraw(compiled, program(), i, parameters, sizes.heads, given.options, sums);
    const Execution how(compiled.device, options);
    for (const ParameterInfo &info : compiled.instance.parameters)
      if (const Tensor *part = sums.find("grad." + info.name)) {
        const std::size_t bytes = bytesOf(part->dtype(), part->shape());
        char *there = how.session->lend(bytes);
        how.session->upload(there, part->data(), bytes);
        const TensorRef to = gradients["grad." + info.name];
        sumItems(*compiled.device, {part->dtype(), there, dataOf(to), part->size(), 1, 1, false, true}, *how.session);
      }
    how.finish();
  }

  const compiler::BackwardProgram &program() const {
    return prepared ? *prepared : chooseBackward(compiled, sizes, residual);
  }

  const Compiled &compiled;
  const BackwardArguments &given;
  const Sizes &sizes;
  DeviceGradients &gradients;
  const bool adds, prepares;
  const compiler::BackwardProgram *const prepared; ///< in place of that of the sizes
  const Residual::Impl *const residual;
  GpuSession *session = nullptr;
  std::vector<std::pair<const HeadTensor *, char *>> made; ///< of every item
  std::vector<std::pair<std::string, TensorRef>> fresh;    ///< to be added
};

} // namespace

void backwardOnDevice(const Compiled &compiled, const BackwardArguments &given, DeviceGradients &gradients, bool adds) {
  const Sizes sizes = checkBackward(compiled, given);
  DeviceBackward backward(compiled, given, sizes, gradients, adds);
  backward.makeRoom();
  backward.run();
}

void prepareBackward(const Compiled &compiled, std::span<const TensorRef> inputs, const TensorRef &grad,
                     const Prepare &options, const Sizes &sizes) {
  const Backward settings{.residual = options.residual, .stream = options.stream};
  const HeadTensors parameters = HeadTensors::blank();
  const BackwardArguments given{inputs, parameters, grad, settings};
  if (compiled.isReference())
    return;
  const std::vector<const compiler::BackwardProgram *> programs = backwardPrograms(compiled, sizes, given.residual());
  if (!compiled.device)
    return;
  DeviceGradients blank;
  for (const HeadTensor *info : differentiated(compiled, parameters))
    blank.data().put({"grad." + info->name,
                      TensorRef(static_cast<void *>(nullptr), compiled.parameterType(), info->shapeFor(sizes.heads))});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    blank.data().put({"grad." + compiled.instance.inputs[i].name, inputs[i]});
  if (options.gradients)
    DeviceBackward(compiled, given, sizes, *options.gradients, true, programs.back()).makeRoom();
  for (const compiler::BackwardProgram *program : programs)
    DeviceBackward(compiled, given, sizes, blank, true, program).run();
}

} // namespace yaglom::runtime
