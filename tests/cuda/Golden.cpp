// The target cuda against the golden cases, forward and backward, on the fake GPU.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/Gpu.h"
#include "tests/numeric/CpuGolden.h"
#include "tests/numeric/GradientCase.h"

using namespace yaglom;
using namespace yaglom::tests;

namespace {

/// As for compiled kernels of the host; 16-bit numbers have 8 or 11 bits, and a gradient passes through several of them.
double outputBound(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 3e-2; }
double gradientBound(DType dtype) { return dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 2e-2 : 1e-1; }

Subject subjectOf(const Golden &golden, DType dtype) {
  CompileOptions settings = options(dtype, golden.given.at("K").shape.at(3), golden.given.at("V").shape.at(3), cuda());
  for (const auto &[name, value] : golden.instance.dims)
    if (name != "d" && name != "e")
      settings.dims[name] = value;
  const Kernel kernel = compiled(*golden.spec, golden.instance.attention->id.name, settings);
  Parameters drawn;
  Data data = dataOf(golden, kernel, drawn);
  return {kernel, data, toTensor(golden.gradient, DType::f64)};
}

/// The reference's output of the inputs as the GPU gets them: what is lost when they are rounded is no mistake of a kernel.
std::vector<double> referenceOf(const Golden &golden, const Subject &subject) {
  CompileOptions settings =
      options(DType::f64, golden.given.at("K").shape.at(3), golden.given.at("V").shape.at(3), Target::reference());
  settings.dims = golden.instance.dims;
  settings.dims.erase("d");
  settings.dims.erase("e");
  Data data = subject.data;
  for (Tensor &input : data.inputs)
    input = toType(toType(input, subject.kernel.dtype()), DType::f64);
  for (const Parameters::Entry &entry : subject.onHost)
    data.parameters.set(entry.name, entry.tensor);
  return run(compiled(*golden.spec, golden.instance.attention->id.name, settings), data);
}

/// Forward and backward of one golden case, with everything on the GPU.
void checkGolden(const std::string &file, DType dtype) {
  const Golden golden = loadGolden(file);
  INFO(golden.file << ", " << toText(dtype));
  const Subject subject = subjectOf(golden, dtype);
  const std::vector<double> &exact = golden.expected.at("O").data;
  const std::vector<double> expected = dtype == DType::f32 ? exact : referenceOf(golden, subject);
  const double byRounding = relativeError(expected, exact);
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output());
  CHECK(relativeError(subject.result(), expected) < outputBound(dtype));
  DeviceGradients gradients;
  subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients);
  const Parameters found = gradients.download();
  const double floor = rms(golden.expected.at("grad.V").data);
  for (const auto &[name, gradient] : golden.expected)
    if (name.starts_with("grad.")) {
      INFO(name);
      CHECK(relativeError(valuesOf(found[name]), gradient.data, floor) < gradientBound(dtype) + 10 * byRounding);
    }
  CHECK(gpus().findings.empty());
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
TEST_CASE("cuda reproduces every golden case in f32", "[.gpu]") {
  for (const std::string &file : goldenFiles())
    checkGolden(file, DType::f32);
}
TEST_CASE("cuda reproduces every golden case in bf16", "[.gpu]") {
  for (const std::string &file : goldenFiles())
    checkGolden(file, DType::bf16);
}
TEST_CASE("cuda reproduces every golden case in f16", "[.gpu]") {
  for (const std::string &file : goldenFiles())
    checkGolden(file, DType::f16);
}

TEST_CASE("host parameters and host gradients give the same bits as those on the GPU") {
  for (const char *name : {"flexformer_n_attention", "fska_causal"}) {
    INFO(name);
    const Golden golden = loadGolden(std::string(name) + "-n7-d16-e12");
    const Subject subject = subjectOf(golden, DType::f32);
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
