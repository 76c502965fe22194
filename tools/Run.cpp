// yaglom run: an attention over the tensors of a file.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Commands.h"
#include "tools/Declared.h"

#include "frontend/Ast.h"
#include "runtime/EmulatedDevice.h"
#include "support/Safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace yaglom::tools {
namespace {

/// "d" or "e" when the width of `arg` is just that, by its shape or by its name (language.md section 2).
std::string widthName(const ast::Arg &arg) {
  if (!arg.shape)
    return arg.id.name == "V" ? "e" : "d";
  const std::vector<ast::ExprRef> &sizes = arg.shape->sizes;
  return sizes.size() == 1 && sizes[0]->kind == ast::ExprKind::Name ? sizes[0]->name : "";
}

std::vector<ast::Arg> inputsOf(const ast::AttentionDecl &attention) {
  std::vector<ast::Arg> args = attention.queryArgs;
  args.insert(args.end(), attention.keyArgs.begin(), attention.keyArgs.end());
  return args;
}

/// The tensors of the input file, read for one attention.
class InputFile {
public:
  InputFile(const RunOptions &options, const Spec &spec)
      : options(options), spec(spec), file(safetensors::File::read(options.input).value()) {}

  /// d and e by the widths of the inputs, of the first that has each. A file that lacks some is refused; so is an attention that does not exist.
  CompileOptions bindWidths() const {
    CompileOptions bound = options.compile;
    bound.headDim = bound.valueDim = 0;
    const auto *attention = spec.file().find<ast::AttentionDecl>(options.attention);
    if (!attention)
      return options.compile; // compile() says it
    std::vector<std::string> missing;
    for (const ast::Arg &arg : inputsOf(*attention)) {
      const safetensors::Entry *entry = file.find(arg.id.name);
      if (!entry)
        missing.push_back("'" + arg.id.name + "'");
      else if (entry->shape.size() == 4 && widthName(arg) == "d" && !bound.headDim)
        bound.headDim = entry->shape[3];
      else if (entry->shape.size() == 4 && widthName(arg) == "e" && !bound.valueDim)
        bound.valueDim = entry->shape[3];
    }
    if (!missing.empty())
      throw Error(fmt::format("{}: missing input{} {}", options.input, missing.size() > 1 ? "s" : "",
                              fmt::join(missing, ", ")));
    if (!bound.headDim) // no input of rank 4 tells: the launch refuses them by name
      bound.headDim = options.compile.headDim;
    return bound;
  }

  void refuseUndeclared(const CompileOptions &bound) const {
    const std::set<std::string> declared = declaredTensors(spec, bound);
    for (const safetensors::Entry &entry : file.tensors())
      if (!isIgnored(entry.name) && !declared.contains(entry.name))
        throw Error(fmt::format("{}: '{}' is no tensor that {} declares", options.input, entry.name, options.file));
  }

  /// The tensor of that name, if the file has it.
  bool load(const std::string &name, DType dtype, Parameters &into) const {
    const safetensors::Entry *entry = file.find(name);
    if (!entry)
      return false;
    Result<Tensor> tensor = file.load(*entry, dtype);
    if (!tensor)
      throw Error(fmt::format("{}: {}", options.input, tensor.error().what()));
    into.set(name, std::move(*tensor));
    return true;
  }

private:
  const RunOptions &options;
  const Spec &spec;
  safetensors::File file;
};

/// What the file supplies, and the rest from the seed: parameters first, since samplers draw by theirs.
Parameters makeParameters(const Kernel &kernel, const InputFile &file, int64_t heads, uint64_t seed) {
  Parameters parameters = kernel.initialParameters(heads, seed);
  const auto loadRole = [&](TensorRole role) {
    for (const TensorInfo &info : kernel.tensors())
      if (info.role == role)
        file.load(info.name, parameterType(kernel.dtype()), parameters);
  };
  loadRole(TensorRole::Parameter);
  loadRole(TensorRole::Noise);
  kernel.draw(parameters, seed);
  loadRole(TensorRole::Draw);
  return parameters;
}

Tensor makeOutput(const Kernel &kernel, const Tensor &query) {
  Shape shape = query.shape();
  shape.resize(3); // a wrong rank is refused by the launch, with its name
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Output)
      shape.push_back(std::stoll(info.axes.back()));
  return Tensor(kernel.dtype(), shape);
}

Tensor toTensor(const std::vector<double> &values, DType dtype) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    tensor.set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

/// O, and what else was asked for.
Parameters compute(const RunOptions &options, const Kernel &kernel, const InputFile &file) {
  Parameters tensors;
  std::vector<std::string> names;
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input) {
      file.load(info.name, kernel.dtype(), tensors);
      names.push_back(info.name);
    }
  const Shape shape = tensors[names.front()].shape();
  const int64_t heads = shape.size() > 1 ? shape[1] : 0;
  const Parameters parameters = makeParameters(kernel, file, heads, options.seed);
  tensors.set("O", makeOutput(kernel, tensors[names.front()]));
  if (options.backward && !file.load("grad.O", kernel.dtype(), tensors))
    throw Error(fmt::format("{}: missing 'grad.O', which --backward reads", options.input));

  const DeviceParameters there = kernel.upload(tensors); // where the kernel runs
  std::vector<TensorRef> inputs;
  for (const std::string &name : names)
    inputs.push_back(there[name]);
  Residual residual(std::max<int64_t>(options.residual, 1));
  Residual *kept = options.residual ? &residual : nullptr;
  kernel.forward(inputs, parameters, there["O"], {.threads = options.threads, .residual = kept});
  Parameters results;
  results.set("O", there.download()["O"]);
  if (options.backward) {
    for (const auto &entry : kernel.backward(inputs, parameters, there["grad.O"],
                                             {.threads = options.threads, .seed = options.seed, .residual = kept}))
      results.set(entry.name, entry.tensor);
    Gradients sums;
    for (const std::string &loss : options.losses)
      for (const auto &entry : kernel.lossGradient(loss, parameters, options.seed)) {
        Tensor sum = entry.tensor;
        if (const Tensor *there = sums.find("loss_" + entry.name))
          for (int64_t i = 0; i < sum.size(); ++i)
            sum.set(i, sum.at(i) + there->at(i));
        sums.set("loss_" + entry.name, std::move(sum));
      }
    for (const auto &entry : sums)
      results.set(entry.name, entry.tensor);
  }
  for (const TensorInfo &info : kernel.tensors())
    if (options.writeDraws && info.role == TensorRole::Draw)
      results.set("draw." + info.name, parameters[info.name]);
  for (const std::string &loss : options.losses)
    results.set("loss." + loss, toTensor(kernel.loss(loss, parameters, options.seed), parameterType(kernel.dtype())));
  return results;
}

} // namespace

int run(const RunOptions &options) {
  const Spec spec = loadSpec(options.file);
  const InputFile file(options, spec);
  const CompileOptions bound = file.bindWidths();
  const Kernel kernel = compile(spec, options.attention, bound).value();
  file.refuseUndeclared(bound);
  const runtime::EmulatorReports reports;
  const Parameters results = compute(options, kernel, file);
  for (const auto &launch : reports.launches)
    if (options.counters)
      fmt::print("{}: {}\n", launch.kernel, options.json ? launch.report.json() : launch.report.countersText());
  safetensors::write(options.output, results, {{"attention", options.attention}, {"spec", options.file}}).value();
  return kSuccess;
}

} // namespace yaglom::tools
