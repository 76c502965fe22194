// Loads the fake driver before anyone asks for a driver.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/Gpu.h"

#include "tests/numeric/GradientCase.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>

namespace yaglom::tests {
namespace {

void *library() {
  static void *const handle = [] {
    void *opened = dlopen(YAGLOM_FAKE_GPU, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(opened);
    return opened;
  }();
  return handle;
}

/// YAGLOM_TEST_GPU: tests tagged [.gpu] run on the GPU of this machine.
bool isReal() { return std::getenv("YAGLOM_TEST_GPU"); }

/// Before the first test.
const bool isSet = [] {
  if (isReal())
    return false;
  setenv("YAGLOM_LIBCUDA", YAGLOM_FAKE_GPU, 1);
  setenv("YAGLOM_ASSEMBLER", "driver", 1);
  return true;
}();

} // namespace

fakecuda::State &gpus() {
  static fakecuda::State *const state = [] {
    if (isReal())
      return new fakecuda::State;
    auto *found = reinterpret_cast<fakecuda::StateFunction>(dlsym(library(), "fakeCudaState"))();
    found->devices = {{"Fake H100", 9, 0, 232448}, {"Fake A100", 8, 0, 166912}};
    return found;
  }();
  return *state;
}

void forgetCalls() {
  gpus().calls.clear();
  gpus().launches.clear();
}

std::vector<std::string> forbiddenCalls() {
  constexpr const char *kAllowed[] = {"cuCtxGetCurrent", "cuCtxSetCurrent", "cuPointerGetAttributes",
                                      "cuLaunchKernelEx", "cuMemsetD8Async"};
  std::vector<std::string> found;
  std::copy_if(gpus().calls.begin(), gpus().calls.end(), std::back_inserter(found), [&](const std::string &call) {
    return std::find(std::begin(kAllowed), std::end(kAllowed), call) == std::end(kAllowed);
  });
  return found;
}

void beginCapture(void *stream) {
  gpus().captured[stream].clear();
  gpus().capturing[stream] = 1;
}

void endCapture(void *stream) {
  CHECK(gpus().capturing[stream] == 1); // not broken
  gpus().capturing.erase(stream);
}

void replay(void *stream) {
  CHECK(reinterpret_cast<fakecuda::ReplayFunction>(dlsym(library(), "fakeCudaReplay"))(stream) == 0);
}

Target cuda(const std::string &name) {
  gpus();
  return Target::parse(name).value();
}

std::string specPath(const std::string &name) { return YAGLOM_SOURCE_DIR "/examples/specs/" + name + ".phi"; }

Subject::Subject(const Kernel &compiled, const Data &given, const Tensor &grad) : kernel(compiled), data(given) {
  Parameters all;
  for (std::size_t i = 0; i < data.inputs.size(); ++i)
    all.set(data.names[i], toType(data.inputs[i], kernel.dtype()));
  all.set("O", Tensor(kernel.dtype(), grad.shape()));
  all.set("grad.O", toType(grad, kernel.dtype()));
  for (const Parameters::Entry &entry : data.parameters)
    onHost.set(entry.name, toType(entry.tensor, parameterType(kernel.dtype())));
  tensors = kernel.upload(all);
  parameters = kernel.upload(onHost);
}

namespace {

Kernel kernelFor(const std::string &spec, const std::string &attention, const Target &target, DType dtype) {
  const Spec parsed = Spec::parseFile(specPath(spec)).value();
  CompileOptions settings = options(dtype, 8, 8, target);
  for (const char *dim : {"n", "m"})
    if (parsed.print().find(std::string("dim ") + dim + " = ") != std::string::npos)
      settings.dims[dim] = 8;
  return compiled(parsed, attention, settings);
}

} // namespace

Subject::Subject(const Kernel &compiled, Sizes sizes)
    : Subject(compiled, makeData(compiled, sizes, DType::f32, 0.5), randomGrad(compiled, sizes, DType::f32)) {}

Subject::Subject(const std::string &spec, const std::string &attention, const Target &target, Sizes sizes, DType dtype)
    : Subject(kernelFor(spec, attention, target, dtype), sizes) {}

std::vector<TensorRef> Subject::inputs() const {
  std::vector<TensorRef> refs;
  for (const std::string &name : data.names)
    refs.push_back(tensors[name]);
  return refs;
}

std::vector<double> Subject::result(void *stream) const { return valuesOf(tensors.download(stream)["O"]); }

} // namespace yaglom::tests
