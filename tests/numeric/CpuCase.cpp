// Tensors for kernels, made and compared.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"

#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numbers>

namespace yaglom::tests {
namespace {

const TensorInfo &infoOf(const Kernel &kernel, const std::string &name) {
  for (const TensorInfo &info : kernel.tensors())
    if (info.name == name)
      return info;
  throw Error("no tensor '" + name + "'");
}

Shape shapeOf(const TensorInfo &info, const Sizes &sizes) {
  Shape shape;
  for (const std::string &axis : info.axes)
    shape.push_back(axis == "B"   ? sizes.batch
                    : axis == "H" ? sizes.heads
                    : axis == "N" ? sizes.rows
                    : axis == "M" ? (sizes.keyRows < 0 ? sizes.rows : sizes.keyRows)
                                  : std::stoll(axis));
  return shape;
}

uint64_t hash(const std::string &text, uint64_t seed) {
  for (const char c : text)
    seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return seed;
}

} // namespace

uint64_t Random::bits() {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * std::numbers::pi * uniform();
  return radius * std::cos(angle);
}

Tensor &Data::operator[](const std::string &input) { return inputs.at(static_cast<std::size_t>(place(input))); }

int64_t Data::place(const std::string &input) const {
  const auto it = std::find(names.begin(), names.end(), input);
  if (it == names.end())
    throw Error("no input '" + input + "'");
  return it - names.begin();
}

Kernel compiled(const Spec &spec, const std::string &attention, const CompileOptions &options) {
  return compile(spec, attention, options).value();
}

Kernel compiled(const std::string &text, const std::string &attention, const CompileOptions &options) {
  return compiled(Spec::parse(text, "case.phi").value(), attention, options);
}

Target testedTarget() {
  const char *name = std::getenv("YAGLOM_TEST_TARGET");
  return name ? Target::parse(name).value() : Target::host();
}

bool onEmulator() { return testedTarget().name().starts_with("emulated"); }

int64_t fewerOnEmulator(int64_t all, int64_t fewer) { return onEmulator() ? fewer : all; }

CompileOptions options(DType dtype, int64_t d, int64_t e, const Target &target, int64_t chunk) {
  CompileOptions result;
  result.target = target;
  result.headDim = d;
  result.valueDim = e;
  result.dtype = dtype;
  result.schedule.chunk = chunk;
  return result;
}

Tensor toType(const Tensor &tensor, DType dtype) {
  Tensor result(dtype, tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i)
    result.set(i, tensor.at(i));
  return result;
}

void roundTo(Data &data, DType dtype) {
  for (Tensor &tensor : data.inputs)
    tensor = toType(toType(tensor, dtype), DType::f64);
  for (const Parameters::Entry &entry : Parameters(data.parameters))
    data.parameters.set(entry.name, toType(toType(entry.tensor, dtype), DType::f64));
}

Data makeData(const Kernel &kernel, Sizes sizes, DType dtype, double scale, uint64_t seed) {
  Data data;
  data.sizes = sizes;
  for (const TensorInfo &info : kernel.tensors())
    if (info.role == TensorRole::Input) {
      data.names.push_back(info.name);
      data.inputs.emplace_back(DType::f64, shapeOf(info, sizes));
      Tensor &tensor = data.inputs.back();
      Random random(hash(info.name, seed));
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.set(i, tensor.shape().size() == 4 ? scale * random.normal() : random.uniform());
    }
  for (const Parameters::Entry &entry : kernel.initialParameters(sizes.heads, seed)) {
    Tensor tensor = toType(entry.tensor, DType::f64);
    if (infoOf(kernel, entry.name).role == TensorRole::Parameter) {
      Random random(hash(entry.name, seed));
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.set(i, tensor.at(i) == 0 ? 0.05 * random.normal() : tensor.at(i) * random.uniform(0.97, 1.03));
    }
    data.parameters.set(entry.name, tensor);
  }
  roundTo(data, dtype);
  return data;
}

int64_t outputWidth(const Kernel &kernel) {
  const TensorInfo &info = infoOf(kernel, "O");
  return info.axes.size() == 4 ? std::stoll(info.axes[3]) : 1;
}

bool isCausal(const Kernel &kernel) { return infoOf(kernel, "K").axes.at(2) == "N"; }

std::vector<double> run(const Kernel &kernel, const Data &data, int threads) {
  std::vector<Tensor> inputs;
  std::vector<TensorRef> refs;
  for (const Tensor &tensor : data.inputs)
    inputs.push_back(toType(tensor, kernel.dtype()));
  for (const Tensor &tensor : inputs)
    refs.push_back(tensor.ref());
  Parameters parameters;
  for (const Parameters::Entry &entry : data.parameters)
    parameters.set(entry.name, toType(entry.tensor, parameterType(kernel.dtype())));
  Tensor output(kernel.dtype(), shapeOf(infoOf(kernel, "O"), data.sizes));
  // What a kernel leaves out shows.
  for (int64_t i = 0; i < output.size(); ++i)
    output.set(i, std::nan(""));
  kernel.forward(refs, parameters, output, {threads});
  std::vector<double> values(static_cast<std::size_t>(output.size()));
  for (int64_t i = 0; i < output.size(); ++i)
    values[static_cast<std::size_t>(i)] = output.at(i);
  return values;
}

double amplification(const Kernel &reference, const Data &data) {
  constexpr double kSize = 0x1p-40;
  Data near = data;
  Random random(5);
  near.transform([&](double x, int64_t) { return x * (1 + kSize * random.normal()); });
  return relativeError(run(reference, near), run(reference, data)) / kSize;
}

double conditioned(const Kernel &reference, const Data &data, DType dtype, int64_t terms) {
  return std::max(tolerance(dtype, terms), 16 * roundoff(dtype) * amplification(reference, data));
}

bool same(double x, double y) {
  return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y) || (std::isnan(x) && std::isnan(y));
}

bool same(const std::vector<double> &x, const std::vector<double> &y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double a, double b) { return same(a, b); });
}

int64_t countNonFinite(const std::vector<double> &values) {
  return std::count_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
}

std::vector<std::string> specFiles() {
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(YAGLOM_SOURCE_DIR "/examples/specs"))
    if (entry.path().extension() == ".phi")
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

} // namespace yaglom::tests
