// yaglom gradcheck: compiled gradients against the reference's dual numbers, along random directions and, at small sizes, entry
// by entry.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Derivative.h"
#include "runtime/Compiled.h"
#include "tools/Commands.h"
#include "tools/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace yaglom::tools {
namespace {

/// Of the error of a gradient, and of the size below which one counts as zero, as a share of that of V. As the tests have it.
struct Bounds {
  double error, floor, lossFloor;
};
Bounds boundsOf(DType dtype) { return dtype == DType::f64 ? Bounds{1e-9, 0.01, 0} : Bounds{1e-4, 1, 1e-3}; }

constexpr int kDirections = 3;
/// Runs of the interpreter, one an entry, times what one costs: beyond, entry by entry would take minutes.
constexpr double kEntryBudget = 4e6;

/// Random tensors for one launch of both kernels.
struct Case {
  std::vector<Tensor> tensors;
  std::vector<std::string> names; ///< of the tensors
  Parameters parameters;
  Tensor grad;

  /// On a kernel of any target and type.
  Gradients backward(const Kernel &kernel, uint64_t seed) const {
    Parameters all, given;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      all.set(names[i], toType(tensors[i], kernel.dtype()));
    all.set("grad.O", toType(grad, kernel.dtype()));
    for (const auto &entry : parameters)
      given.set(entry.name, toType(entry.tensor, kernel.dtype()));
    const DeviceParameters there = kernel.upload(all);
    std::vector<TensorRef> inputs;
    for (const std::string &name : names)
      inputs.push_back(there[name]);
    return kernel.backward(inputs, given, there["grad.O"], {.seed = seed});
  }

  static Tensor toType(const Tensor &tensor, DType dtype) {
    Tensor result(dtype, tensor.shape());
    for (int64_t i = 0; i < tensor.size(); ++i)
      result.set(i, tensor.at(i));
    return result;
  }
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
    Tensor tensor(kernel.dtype(), shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, shape.size() == 4 ? row(random) : scalar(random));
    return tensor;
  };
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input) {
      made.tensors.push_back(fill(info));
      made.names.push_back(info.name);
    } else if (info.role == TensorRole::Output) {
      made.grad = fill(info);
    }
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
  double size;            ///< rms of the gradient
  double alongDirections; ///< errors in the measure of language.md section 6; that of a direction by its length
  double bound;
  std::optional<double> entryByEntry{};

  bool passed() const { return alongDirections <= bound && entryByEntry.value_or(0) <= bound; }
};

double relative(double error, double scale) { return error == 0 ? 0 : scale > 0 ? error / scale : INFINITY; }

using Array = reference::Array<double>;
using reference::toArray;

Array randomDirection(const Shape &shape, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  Array direction(shape);
  for (double &x : direction.data)
    x = normal(random);
  return direction;
}

double dot(const Tensor &tensor, const Array &direction) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    sum += tensor.at(i) * direction.data[static_cast<std::size_t>(i)];
  return sum;
}

/// The reference, which knows the derivative along a direction from one run.
class Reference {
public:
  Reference(const Spec &spec, const GradcheckOptions &options, const Kernel &kernel, const Case &made)
      : instance(runtime::bindOptions(spec, options.attention, options.compile).value()), heads(options.heads),
        grad(toArray(made.grad)) {
    for (std::size_t i = 0; i < instance.inputs.size(); ++i)
      tensors[instance.inputs[i].name] = toArray(made.tensors[i]);
    for (const auto &entry : made.parameters)
      tensors[entry.name] = toArray(entry.tensor);
    for (const auto &entry : kernel.noise(options.heads, options.seed))
      tensors[entry.name] = toArray(entry.tensor);
  }

  double along(const std::string &name, const Array &direction) const {
    return directionalDerivative(instance, tensors, grad, heads, name, direction);
  }

  double lossAlong(const std::string &loss, const std::string &name, const Array &direction) const {
    return directionalLossDerivative(instance, tensors, heads, loss, name, direction);
  }

private:
  const Instance instance;
  const int64_t heads;
  const Array grad;
  reference::Tensors<double> tensors;
};

/// A row for each gradient of `found`, by what `along` says of its tensor.
template <typename Along>
std::vector<Row> compareDirections(const Gradients &found, const std::string &prefix, double floor, double bound,
                                   uint64_t seed, Along along) {
  std::mt19937_64 random(seed + 2);
  std::vector<Row> rows;
  for (const auto &entry : found) {
    Row row{prefix + entry.name, entry.tensor.size(), rms(entry.tensor), 0, bound};
    const std::string name = entry.name.substr(std::string("grad.").size());
    const double scale = std::max(row.size, floor) * std::sqrt(static_cast<double>(row.entries));
    for (int i = 0; i < kDirections && row.entries; ++i) {
      const Array direction = randomDirection(entry.tensor.shape(), random);
      const double error = std::fabs(dot(entry.tensor, direction) - along(name, direction));
      if (const double off = relative(error, scale); !(off <= row.alongDirections)) // also when it is NaN
        row.alongDirections = off;
    }
    rows.push_back(row);
  }
  return rows;
}

void compareEntries(const Gradients &found, const Gradients &expected, double floor, std::vector<Row> &rows) {
  for (Row &row : rows) {
    const Tensor &exact = expected[row.tensor];
    Tensor difference = found[row.tensor];
    for (int64_t i = 0; i < difference.size(); ++i)
      difference.set(i, difference.at(i) - exact.at(i));
    row.entryByEntry = relative(rms(difference), std::max(rms(exact), floor));
  }
}

/// How much every entry of every gradient would cost; heads and batch share runs.
double costOfEntries(const Gradients &gradients, const GradcheckOptions &options) {
  double entries = 0;
  for (const auto &entry : gradients)
    entries += static_cast<double>(entry.tensor.size());
  constexpr double kFixed = 500; // in pairs of tokens: draws by a network, and so on
  return entries / static_cast<double>(options.heads) * (kFixed + static_cast<double>(options.length * options.length));
}

void print(const std::vector<Row> &rows) {
  for (const Row &row : rows) {
    const std::string entries = row.entryByEntry ? fmt::format("{:9.2e}", *row.entryByEntry) : "        -";
    fmt::print("{:<40} {:>8} entries  rms {:9.2e}  error {}  along directions {:9.2e}  {}\n", row.tensor, row.entries,
               row.size, entries, row.alongDirections, row.passed() ? "ok" : "WRONG");
  }
}

void printJson(const GradcheckOptions &options, const std::vector<Row> &rows, bool passed) {
  std::string tensors;
  for (const Row &row : rows)
    tensors += (tensors.empty() ? "" : ", ") + JsonObject()
                                                   .add("tensor", row.tensor)
                                                   .add("entries", row.entries)
                                                   .add("rms", row.size)
                                                   .add("error", row.entryByEntry.value_or(NAN))
                                                   .add("direction_error", row.alongDirections)
                                                   .text();
  fmt::print("{}\n", JsonObject()
                         .add("attention", options.attention)
                         .add("length", options.length)
                         .addRaw("passed", passed ? "true" : "false")
                         .addRaw("tensors", "[" + tensors + "]")
                         .text());
}

} // namespace

int gradcheck(const GradcheckOptions &options) {
  const Spec spec = loadSpec(options.file);
  const Kernel kernel = compile(spec, options.attention, options.compile).value();
  const Case made = makeCase(kernel, options);
  const Reference reference(spec, options, kernel, made);
  const Bounds bounds = boundsOf(kernel.dtype());
  const Gradients found = made.backward(kernel, options.seed);
  const double floor = found.find("grad.V") ? bounds.floor * rms(found["grad.V"]) : 0;
  std::vector<Row> rows = compareDirections(
      found, "", floor, bounds.error, options.seed,
      [&](const std::string &name, const Array &direction) { return reference.along(name, direction); });
  if (costOfEntries(found, options) <= kEntryBudget) {
    CompileOptions exact = options.compile;
    exact.dtype = DType::f64;
    exact.target = Target::reference();
    const Kernel definition = compile(spec, options.attention, exact).value();
    compareEntries(found, made.backward(definition, options.seed), floor, rows);
  }
  for (const std::string &loss : kernel.losses()) {
    const Gradients gradients = kernel.lossGradient(loss, made.parameters, options.seed);
    for (Row &row : compareDirections(gradients, "loss_", bounds.lossFloor, bounds.error, options.seed,
                                      [&](const std::string &name, const Array &direction) {
                                        return reference.lossAlong(loss, name, direction);
                                      }))
      rows.push_back(row);
  }
  const bool passed = std::all_of(rows.begin(), rows.end(), [](const Row &row) { return row.passed(); });
  if (options.json)
    printJson(options, rows, passed);
  else
    print(rows);
  return passed ? kSuccess : kFailure;
}

} // namespace yaglom::tools
