// Kernels for GPUs on the emulator: golden outputs, draws and gradients, by the tolerance table.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuGolden.h"
#include "tests/numeric/GradientCase.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

const Target kEmulated = Target::parse("emulated").value();

/// The files whose name holds one of the texts.
std::vector<std::string> filesWith(std::initializer_list<const char *> texts) {
  std::vector<std::string> files;
  for (const std::string &file : goldenFiles())
    if (std::any_of(texts.begin(), texts.end(), [&](const char *text) { return file.find(text) != std::string::npos; }))
      files.push_back(file);
  return files;
}

} // namespace

TEST_CASE("emulated: float32 kernels reproduce every golden output and draw") {
  int outputs = 0, draws = 0;
  for (const std::string &file : goldenFiles()) {
    INFO(file);
    const Golden golden = loadGolden(file);
    const Kernel kernel = kernelOf(golden, DType::f32, kEmulated);
    Parameters drawn;
    const Data data = dataOf(golden, kernel, drawn);
    CHECK(relativeError(run(kernel, data, 0), golden.expected.at("O").data) < tolerance(DType::f32, 1));
    ++outputs;
    for (const auto &[name, expected] : golden.expected)
      if (name.starts_with("draw.")) {
        INFO(name);
        CHECK(relativeError(valuesOf(drawn[name.substr(5)]), expected.data) < 5e-6);
        ++draws;
      }
  }
  CHECK(outputs >= 80);
  CHECK(draws >= 9);
}

TEST_CASE("emulated: 16-bit kernels reproduce golden outputs as far as rounding allows") {
  int outputs = 0;
  for (const std::string &file : filesWith({"-n7-", "-n130-"})) {
    const Golden golden = loadGolden(file);
    const Kernel exact = kernelOf(golden, DType::f64, Target::reference());
    const std::vector<double> &expected = golden.expected.at("O").data;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      INFO(file << " " << toText(dtype));
      const Kernel kernel = kernelOf(golden, dtype, kEmulated);
      Parameters drawn;
      const Data data = dataOf(golden, kernel, drawn);
      Data rounded = data;
      roundTo(rounded, dtype);
      const double change = relativeError(run(exact, rounded), expected);
      CHECK(relativeError(run(kernel, data, 0), expected) < halfBound(dtype, change));
      ++outputs;
    }
  }
  CHECK(outputs >= 60);
}

TEST_CASE("emulated: float32 kernels reproduce golden gradients") {
  int compared = 0, cases = 0;
  for (const std::string &file : filesWith({"-n1-", "-n7-", "-n65-"})) {
    INFO(file);
    const Golden golden = loadGolden(file);
    const Kernel kernel = kernelOf(golden, DType::f32, kEmulated);
    Parameters drawn;
    const Data data = dataOf(golden, kernel, drawn);
    const Gradients gradients = backward(kernel, data, toTensor(golden.gradient, DType::f64), 0, ++cases % 2);
    const double floor = rms(golden.expected.at("grad.V").data);
    for (const auto &[name, expected] : golden.expected)
      if (name.starts_with("grad.")) {
        INFO(name);
        CHECK(relativeError(valuesOf(gradients[name]), expected.data, floor) < 1e-4);
        ++compared;
      }
  }
  CHECK(compared >= 200);
}

TEST_CASE("emulated: 16-bit kernels reproduce golden gradients as far as rounding allows") {
  int compared = 0;
  for (const std::string &file : filesWith({"-n65-"})) {
    const Golden golden = loadGolden(file);
    const Kernel exact = kernelOf(golden, DType::f64);
    const Tensor grad = toTensor(golden.gradient, DType::f64);
    const double floor = rms(golden.expected.at("grad.V").data);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      INFO(file << " " << toText(dtype));
      const Kernel kernel = kernelOf(golden, dtype, kEmulated);
      Parameters drawn;
      const Data data = dataOf(golden, kernel, drawn);
      Data rounded = data;
      roundTo(rounded, dtype);
      const Gradients found = backward(kernel, data, grad, 0);
      const Gradients near = backward(exact, rounded, toType(toType(grad, dtype), DType::f64));
      for (const auto &[name, expected] : golden.expected)
        if (name.starts_with("grad.")) {
          INFO(name);
          const double change = relativeError(valuesOf(near[name]), expected.data, floor);
          CHECK(relativeError(valuesOf(found[name]), expected.data, floor) <
                halfGradientBound(data, name, dtype, change));
          ++compared;
        }
    }
  }
  CHECK(compared >= 130);
}
