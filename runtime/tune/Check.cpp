// Errors of a candidate's numbers, as shares of the size of what is compared.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Check.h"

#include "compiler/targets/reference/Derivative.h"
#include "support/Tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace yaglom::runtime::tune {
namespace {

/// A candidate's error may be this many times that of the compiler's own schedule, where the latter is beyond the table.
constexpr double kOwnErrors = 4;
/// Two schedules are each off by what one may be.
constexpr double kTwoErrors = 2;

double sumOfSquares(const Tensor &tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    sum += tensor.at(i) * tensor.at(i);
  return sum;
}

double rms(const Tensor &tensor) {
  return tensor.size() ? std::sqrt(sumOfSquares(tensor) / static_cast<double>(tensor.size())) : 0;
}

double rmsOfDifference(const Tensor &one, const Tensor &two) {
  double sum = 0;
  for (int64_t i = 0; i < one.size(); ++i)
    sum += (one.at(i) - two.at(i)) * (one.at(i) - two.at(i));
  return one.size() ? std::sqrt(sum / static_cast<double>(one.size())) : 0;
}

/// Of a gradient, as the numeric tests have it.
double gradientTolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-9 : dtype == DType::f32 ? 1e-4 : kOwnErrors * tolerance(dtype, 1);
}

/// The size of the gradient `name`. Of a tensor of the heads it is a sum over tokens, which may cancel: it is as wrong as its
/// terms, whose size is that of grad.V.
double gradientScale(const std::string &name, const Parameters &all, const Workload &workload) {
  const Tensor *values = all.find("grad.V");
  const bool isInput = workload.tensors.find(name.substr(std::string_view("grad.").size()));
  const double rows = isInput ? 1 : static_cast<double>(workload.sizes.queryLength);
  return std::max(rms(all[name]), values ? rms(*values) * std::sqrt(rows) : 0);
}

reference::Array<double> randomDirection(const Shape &shape, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  reference::Array<double> direction(shape);
  for (double &x : direction.data)
    x = normal(random);
  return direction;
}

Parameters launched(const Kernel &kernel, const Workload &workload, Pass pass, int threads, const Spoil &spoil) {
  Subject subject(kernel, workload, pass, threads);
  subject.launch();
  Parameters results = subject.results();
  if (spoil)
    spoil(results);
  return results;
}

std::string wrong(const std::string &tensor, const char *measure, double error, double bound) {
  return fmt::format("'{}' differs from {} by {:.2g} of its size, which is more than {:.2g}", tensor, measure, error,
                     bound);
}

} // namespace

ReferenceCheck::ReferenceCheck(const Instance &instance, const Kernel &own, Pass pass, const Sizes &sizes)
    : pass(pass), dtype(own.dtype()), workload(own, sizes) {
  const Parameters results = run(own, {});
  if (pass == Pass::Forward)
    addOutput(instance);
  else
    addGradients(instance, own, results);
  for (Wanted &wanted : all)
    wanted.bound = std::max(wanted.bound, kOwnErrors * errorOf(wanted, results));
}

void ReferenceCheck::addOutput(const Instance &instance) {
  reference::Tensors<double> tensors;
  for (const Parameters *some : {&workload.tensors, &workload.parameters})
    for (const auto &entry : *some)
      tensors[entry.name] = reference::toArray(entry.tensor);
  Wanted wanted{.tensor = "O", .along = {}};
  wanted.values = reference::toTensor(reference::forward(instance, tensors), DType::f64);
  wanted.scale = rms(wanted.values);
  wanted.bound = tolerance(dtype, workload.sizes.keyLength);
  all.push_back(std::move(wanted));
}

void ReferenceCheck::addGradients(const Instance &instance, const Kernel &own, const Parameters &results) {
  reference::Tensors<double> tensors;
  for (const Parameters *some : {&workload.tensors, &workload.parameters})
    for (const auto &entry : *some)
      tensors[entry.name] = reference::toArray(entry.tensor);
  for (const auto &entry : own.noise(workload.sizes.heads, 0))
    tensors[entry.name] = reference::toArray(entry.tensor);
  std::mt19937_64 random(2);
  for (const auto &entry : results) {
    Wanted wanted{.tensor = entry.name, .along = randomDirection(entry.tensor.shape(), random)};
    wanted.derivative =
        reference::directionalDerivative(instance, tensors, tensors.at("grad.O"), workload.sizes.heads,
                                         entry.name.substr(std::string_view("grad.").size()), wanted.along);
    wanted.scale = gradientScale(entry.name, results, workload) *
                   std::sqrt(static_cast<double>(std::max<int64_t>(entry.tensor.size(), 1)));
    wanted.bound = gradientTolerance(dtype);
    all.push_back(std::move(wanted));
  }
}

double ReferenceCheck::errorOf(const Wanted &wanted, const Parameters &results) const {
  const Tensor &found = results[wanted.tensor];
  if (pass == Pass::Forward)
    return rmsOfDifference(found, wanted.values) / wanted.scale;
  double sum = 0;
  for (int64_t i = 0; i < found.size(); ++i)
    sum += found.at(i) * wanted.along.data[static_cast<std::size_t>(i)];
  const double error = std::fabs(sum - wanted.derivative);
  return error == 0 ? 0 : error / wanted.scale;
}

Parameters ReferenceCheck::run(const Kernel &kernel, const Spoil &spoil) const {
  return launched(kernel, workload, pass, 1, spoil);
}

std::optional<std::string> ReferenceCheck::check(const Kernel &kernel, const Spoil &spoil) const {
  const Parameters results = run(kernel, spoil);
  for (const Wanted &wanted : all)
    if (const double error = errorOf(wanted, results); !(error <= wanted.bound)) // also when it is NaN
      return wrong(wanted.tensor, "the reference's", error, wanted.bound);
  return std::nullopt;
}

LengthCheck::LengthCheck(const Kernel &own, Pass pass, const Sizes &sizes, int threads)
    : pass(pass), dtype(own.dtype()), threads(threads), workload(own, sizes),
      expected(launched(own, workload, pass, threads, {})) {}

std::optional<std::string> LengthCheck::check(const Kernel &kernel, const Spoil &spoil) const {
  const Parameters results = launched(kernel, workload, pass, threads, spoil);
  for (const auto &entry : expected) {
    const bool isOutput = pass == Pass::Forward;
    const double scale = isOutput ? rms(entry.tensor) : gradientScale(entry.name, expected, workload);
    const double bound =
        kTwoErrors * (isOutput ? tolerance(dtype, workload.sizes.keyLength) * kOwnErrors : gradientTolerance(dtype));
    const double difference = rmsOfDifference(results[entry.name], entry.tensor);
    const double error = difference == 0 ? 0 : difference / scale;
    if (!(error <= bound))
      return wrong(entry.name, "that of the compiler's own schedule", error, bound);
  }
  return std::nullopt;
}

} // namespace yaglom::runtime::tune
