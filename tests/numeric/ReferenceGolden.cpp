// The reference against the golden cases: outputs, draws and losses, and directional derivatives by dual numbers.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Reference.h"
#include "support/Random.h"
#include "tests/numeric/Golden.h"

#include "tests/unit/Catch.h"

#include <cmath>

using namespace yaglom;
using namespace yaglom::tests;
using reference::Array;
using reference::Dual;
using reference::Tensors;

namespace {

constexpr double kValueTolerance = 1e-10;
constexpr double kGradientTolerance = 1e-8;

/// What a name in `expected` has behind `prefix`, or nothing.
std::string behind(const std::string &name, const std::string &prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : "";
}

Tensors<Dual> lift(const Tensors<double> &tensors) {
  Tensors<Dual> duals;
  for (const auto &[name, array] : tensors) {
    duals[name] = Array<Dual>(array.shape);
    for (std::size_t i = 0; i < array.data.size(); ++i)
      duals[name].data[i].value = array.data[i];
  }
  return duals;
}

/// Compares sum(weights * directional derivative of f) with sum(gradient * direction), for a random direction of the tensor
/// `name`; relative to the size that the latter has for a random direction.
template <typename Function>
double directionalError(const Golden &golden, const std::string &name, const Array<double> &gradient, double floor,
                        const std::vector<double> &weights, Function function) {
  Tensors<Dual> tensors = lift(golden.given);
  const NormalStream direction(11, golden.file + name, 0);
  double expected = 0;
  for (std::size_t i = 0; i < gradient.data.size(); ++i) {
    tensors.at(name).data[i].tangent = direction(i);
    expected += gradient.data[i] * direction(i);
  }
  const Array<Dual> result = function(tensors);
  REQUIRE(result.data.size() == weights.size());
  double found = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    found += weights[i] * result.data[i].tangent;
  const double scale = std::max(rms(gradient.data), floor) * std::sqrt(static_cast<double>(gradient.data.size()));
  return found == expected ? 0 : std::fabs(found - expected) / scale;
}

/// The largest rms of the expected tensors behind `prefix`.
double largestRms(const Golden &golden, const std::string &prefix) {
  double largest = 0;
  for (const auto &[name, array] : golden.expected)
    if (!behind(name, prefix).empty())
      largest = std::max(largest, rms(array.data));
  return largest;
}

} // namespace

TEST_CASE("there are golden cases") { CHECK(goldenFiles().size() >= 80); }

TEST_CASE("the reference reproduces every golden output") {
  double worst = 0;
  for (const std::string &file : goldenFiles()) {
    INFO(file);
    const Golden golden = loadGolden(file);
    const Array<double> output = reference::forward(golden.instance, golden.given);
    const double error = relativeError(output.data, golden.expected.at("O").data);
    CHECK(error < kValueTolerance);
    worst = std::max(worst, error);
  }
  INFO("largest error " << worst);
  CHECK(worst > 0); // something was compared
}

TEST_CASE("the reference reproduces every golden draw and loss") {
  int compared = 0;
  for (const std::string &file : goldenFiles()) {
    INFO(file);
    const Golden golden = loadGolden(file);
    const Tensors<double> draws = reference::draws(golden.instance, golden.given, golden.heads);
    for (const auto &[name, expected] : golden.expected) {
      INFO(name);
      if (const std::string draw = behind(name, "draw."); !draw.empty())
        CHECK(relativeError(draws.at(draw).data, expected.data) < kValueTolerance);
      else if (const std::string loss = behind(name, "loss."); !loss.empty())
        CHECK(relativeError(reference::loss(golden.instance, loss, golden.given, golden.heads).data, expected.data) <
              kValueTolerance);
      else
        continue;
      ++compared;
    }
  }
  CHECK(compared >= 11);
}

TEST_CASE("dual numbers reproduce every golden gradient along a random direction") {
  int compared = 0;
  for (const std::string &file : goldenFiles()) {
    INFO(file);
    const Golden golden = loadGolden(file);
    const double floor = 0.01 * rms(golden.expected.at("grad.V").data);
    for (const auto &[name, gradient] : golden.expected)
      if (const std::string tensor = behind(name, "grad."); !tensor.empty()) {
        INFO(name);
        const auto forward = [&](const Tensors<Dual> &tensors) { return reference::forward(golden.instance, tensors); };
        CHECK(directionalError(golden, tensor, gradient, floor, golden.gradient.data, forward) < kGradientTolerance);
        ++compared;
      }
  }
  CHECK(compared >= 400);
}

TEST_CASE("dual numbers reproduce every golden gradient of a loss") {
  int compared = 0;
  for (const std::string &file : goldenFiles()) {
    INFO(file);
    const Golden golden = loadGolden(file);
    const double floor = 0.01 * largestRms(golden, "loss_grad.");
    for (const auto &[name, gradient] : golden.expected)
      if (const std::string tensor = behind(name, "loss_grad."); !tensor.empty()) {
        INFO(name);
        const std::string loss = golden.instance.losses.at(0).name;
        const auto value = [&](const Tensors<Dual> &tensors) {
          return reference::loss(golden.instance, loss, tensors, golden.heads);
        };
        const std::vector<double> ones(static_cast<std::size_t>(golden.heads), 1.0);
        CHECK(directionalError(golden, tensor, gradient, floor, ones, value) < kGradientTolerance);
        ++compared;
      }
  }
  CHECK(compared >= 60);
}
