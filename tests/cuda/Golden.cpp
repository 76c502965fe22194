// The target cuda against the golden cases, forward and backward, on the fake GPU.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/Gpu.h"
#include "tests/numeric/CpuGolden.h"
#include "tests/numeric/GradientCase.h"
#include "tests/numeric/Tolerance.h"

#include <optional>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

/// What rounding the inputs alone changes, by exact kernels of the host: of the output, and of a gradient.
class Rounding {
public:
  Rounding(const Golden &golden, DType dtype) : golden(golden), floor(rms(golden.expected.at("grad.V").data)) {
    const Kernel exact = kernelOf(golden, DType::f64);
    Parameters drawn;
    Data rounded = dataOf(golden, exact, drawn);
    roundTo(rounded, dtype);
    output = relativeError(run(exact, rounded), golden.expected.at("O").data);
    near = backward(exact, rounded, toType(toType(toTensor(golden.gradient, DType::f64), dtype), DType::f64));
  }
  double ofGradient(const std::string &name) const {
    return relativeError(valuesOf(near[name]), golden.expected.at(name).data, floor);
  }

  double output;

private:
  const Golden &golden;
  const double floor;
  Gradients near;
};

/// Forward and backward of one golden case, with everything on the GPU, by the bounds of tests/numeric/GpuGolden.cpp.
void computeGolden(const Golden &golden, DType dtype) {
  const Kernel kernel = kernelOf(golden, dtype, cuda());
  Parameters drawn;
  const Subject subject(kernel, dataOf(golden, kernel, drawn), toTensor(golden.gradient, DType::f64));
  std::optional<Rounding> rounding;
  if (dtype != DType::f32)
    rounding.emplace(golden, dtype);
  kernel.forward(subject.inputs(), subject.parameters, subject.output());
  CHECK(relativeError(subject.result(), golden.expected.at("O").data) <
        (rounding ? halfBound(dtype, rounding->output) : 5e-5));
  DeviceGradients gradients;
  kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients);
  const Parameters found = gradients.download();
  const double floor = rms(golden.expected.at("grad.V").data);
  for (const auto &[name, expected] : golden.expected)
    if (name.starts_with("grad.")) {
      INFO(name);
      const double sum = sumBound(dtype, subject.data.sizes.rows);
      CHECK(relativeError(valuesOf(found[name]), expected.data, floor) <
            (rounding ? std::max(halfBound(dtype, rounding->ofGradient(name)), sum) : 1e-4));
    }
  CHECK(gpus().findings.empty());
}

void checkGolden(const std::string &file, DType dtype) {
  INFO(file << ", " << toText(dtype));
  CHECK_NOTHROW(computeGolden(loadGolden(file), dtype)); // and on to the next file
}

/// Every golden case; in 16 bits those of the shipped specs, whose numbers are such as attentions have, over more than one token:
/// the bounds are for means.
void checkAll(DType dtype) {
  for (const std::string &file : goldenFiles())
    if (dtype == DType::f32 || (file.find("-n") != std::string::npos && file.find("-n1-") == std::string::npos))
      checkGolden(file, dtype);
}

} // namespace

TEST_CASE("cuda reproduces golden outputs and gradients") {
  for (const char *name : {"flexformer_n_attention", "performer", "fska_causal", "linear_transformer"})
    for (const char *size : {"-n7-d16-e12", "-n65-d16-e12"})
      checkGolden(std::string(name) + size, DType::f32);
}

TEST_CASE("cuda reproduces golden outputs and gradients in 16 bits") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const char *name : {"flexformer_n_attention", "performer", "linear_transformer"})
      checkGolden(std::string(name) + "-n7-d16-e12", dtype);
}

// For a real GPU: scripts/gpu-check. The emulator takes minutes.
TEST_CASE("cuda reproduces every golden case in f32", "[.gpu]") { checkAll(DType::f32); }
TEST_CASE("cuda reproduces every golden case in bf16", "[.gpu]") { checkAll(DType::bf16); }
TEST_CASE("cuda reproduces every golden case in f16", "[.gpu]") { checkAll(DType::f16); }

TEST_CASE("host parameters and host gradients give the same bits as those on the GPU") {
  for (const char *name : {"flexformer_n_attention", "fska_causal"}) {
    INFO(name);
    const Golden golden = loadGolden(std::string(name) + "-n7-d16-e12");
    const Kernel kernel = kernelOf(golden, DType::f32, cuda());
    Parameters drawn;
    const Subject subject(kernel, dataOf(golden, kernel, drawn), toTensor(golden.gradient, DType::f64));
    subject.kernel.forward(subject.inputs(), subject.parameters, subject.output());
    const std::vector<double> output = subject.result();
    subject.kernel.forward(subject.inputs(), subject.onHost, subject.output());
    CHECK(same(subject.result(), output));

    DeviceGradients there;
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), there);
    const Gradients here = subject.kernel.backward(subject.inputs(), subject.onHost, subject.grad());
    const Parameters downloaded = there.download();
    CHECK(downloaded.size() == here.size());
    for (const auto &entry : here) {
      INFO(entry.name);
      CHECK(same(valuesOf(downloaded[entry.name]), valuesOf(entry.tensor)));
    }

    subject.kernel.accumulate(subject.inputs(), subject.parameters, subject.grad(), there);
    Gradients twice = here;
    subject.kernel.accumulate(subject.inputs(), subject.onHost, subject.grad(), twice);
    const Parameters sums = there.download();
    for (const auto &entry : twice) {
      INFO(entry.name);
      CHECK(same(valuesOf(sums[entry.name]), valuesOf(entry.tensor)));
    }
  }
}

TEST_CASE("draws and losses of a cuda kernel are those of the host") {
  const Spec spec = Spec::parseFile(specPath("fska")).value();
  CompileOptions settings = options(DType::f32, 8, 8);
  const Kernel host = compiled(spec, "fska_causal", settings);
  settings.target = cuda();
  const Kernel kernel = compiled(spec, "fska_causal", settings);
  const Parameters expected = host.initialParameters(2, 5), found = kernel.initialParameters(2, 5);
  for (const auto &entry : expected) {
    INFO(entry.name);
    CHECK(relativeError(valuesOf(found[entry.name]), valuesOf(entry.tensor)) < 1e-5);
  }
  CHECK(kernel.loss("fska_prior", expected, 3) == host.loss("fska_prior", expected, 3));
  const Gradients byHost = host.lossGradient("fska_prior", expected, 3);
  for (const auto &entry : kernel.lossGradient("fska_prior", expected, 3)) {
    INFO(entry.name);
    CHECK(relativeError(valuesOf(entry.tensor), valuesOf(byHost[entry.name]), 1e-3) < 1e-4);
  }
}
