// yaglom gradcheck: compiled gradients in float64 against the reference's dual numbers.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Commands.h"
#include "tools/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace yaglom::tools {
namespace {

constexpr double kBound = 1e-9;

/// Random tensors for one launch of both kernels.
struct Case {
  std::vector<Tensor> tensors;
  std::vector<TensorRef> inputs;
  Parameters parameters;
  Tensor grad;
};

Case makeCase(const Kernel &kernel, const GradcheckOptions &options) {
  Case made;
  std::mt19937_64 random(options.seed + 1);
  std::normal_distribution<double> row(0, 0.5);
  std::uniform_real_distribution<double> scalar(0.3, 1);
  const auto fill = [&](const TensorInfo &info) {
    Shape shape{options.batch, options.heads, options.length};
    if (info.axes.size() == 4)
      shape.push_back(std::stoll(info.axes[3]));
    Tensor tensor(DType::f64, shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, shape.size() == 4 ? row(random) : scalar(random));
    return tensor;
  };
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input)
      made.tensors.push_back(fill(info));
    else if (info.role == TensorRole::Output)
      made.grad = fill(info);
  for (const Tensor &tensor : made.tensors)
    made.inputs.push_back(tensor.ref());
  // Away from the initial values, where many gradients vanish.
  made.parameters = kernel.initialParameters(options.heads, options.seed);
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Parameter) {
      Tensor &tensor = made.parameters[info.name];
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.set(i, tensor.at(i) + 0.1 * row(random));
    }
  kernel.draw(made.parameters, options.seed);
  return made;
}

double rms(const Tensor &tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    sum += tensor.at(i) * tensor.at(i);
  return tensor.size() ? std::sqrt(sum / static_cast<double>(tensor.size())) : 0;
}

struct Row {
  std::string tensor;
  int64_t entries;
  double size;  ///< rms of the reference's gradient
  double error; ///< in the measure of language.md section 6
};

std::vector<Row> compare(const Gradients &found, const Gradients &expected) {
  const double floor = expected.find("grad.V") ? 0.01 * rms(expected["grad.V"]) : 0;
  std::vector<Row> rows;
  for (const auto &entry : expected) {
    Tensor difference = found[entry.name];
    for (int64_t i = 0; i < difference.size(); ++i)
      difference.set(i, difference.at(i) - entry.tensor.at(i));
    const double off = rms(difference), size = rms(entry.tensor), scale = std::max(size, floor);
    rows.push_back({entry.name, difference.size(), size, off == 0 ? 0 : scale > 0 ? off / scale : INFINITY});
  }
  return rows;
}

} // namespace

int gradcheck(const GradcheckOptions &options) {
  const Spec spec = loadSpec(options.file);
  CompileOptions host = options.compile;
  host.dtype = DType::f64;
  CompileOptions reference = host;
  reference.target = Target::reference();
  const Kernel kernel = compile(spec, options.attention, host).value();
  const Kernel definition = compile(spec, options.attention, reference).value();
  const Case made = makeCase(kernel, options);
  const std::vector<Row> rows =
      compare(kernel.backward(made.inputs, made.parameters, made.grad.ref(), {.seed = options.seed}),
              definition.backward(made.inputs, made.parameters, made.grad.ref(), {.seed = options.seed}));
  const bool passed = std::all_of(rows.begin(), rows.end(), [](const Row &row) { return row.error <= kBound; });
  if (options.json) {
    std::string tensors;
    for (const Row &row : rows)
      tensors += (tensors.empty() ? "" : ", ") + JsonObject()
                                                     .add("tensor", row.tensor)
                                                     .add("entries", row.entries)
                                                     .add("rms", row.size)
                                                     .add("error", row.error)
                                                     .text();
    fmt::print("{}\n", JsonObject()
                           .add("attention", options.attention)
                           .add("length", options.length)
                           .addRaw("passed", passed ? "true" : "false")
                           .addRaw("tensors", "[" + tensors + "]")
                           .text());
  } else {
    for (const Row &row : rows)
      fmt::print("{:<32} {:>8} entries  rms {:9.2e}  error {:9.2e}  {}\n", row.tensor, row.entries, row.size, row.error,
                 row.error <= kBound ? "ok" : "WRONG");
  }
  return passed ? kSuccess : kFailure;
}

} // namespace yaglom::tools
