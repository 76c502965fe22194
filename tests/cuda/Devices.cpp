// Several GPUs, determinism, parameters that stay and change, and what a launch of one device refuses.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compiled.h"
#include "tests/cuda/Gpu.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/GradientCase.h"
#include "yaglom/dlpack.h"

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr Sizes kSizes{2, 2, 33};

Subject performer(const std::string &target) { return {"performer", "performer", cuda(target), kSizes}; }

std::vector<double> forward(const Subject &subject) {
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output());
  return subject.result();
}

} // namespace

TEST_CASE("each GPU gets code for its architecture and memory of its own") {
  const Subject first = performer("cuda"), second = performer("cuda:1");
  const std::vector<double> output = forward(first);
  CHECK(relativeError(forward(second), output) < 1e-6);
  CHECK(first.output().device == 0);
  CHECK(second.output().device == 1);
  const auto allocated = [](const TensorRef &ref) {
    return std::prev(gpus().memory.upper_bound(reinterpret_cast<uintptr_t>(ref.data)))->second.device;
  };
  CHECK(allocated(first.output()) == 0);
  CHECK(allocated(second.output()) == 1);
  const Spec spec = Spec::parseFile(specPath("performer")).value();
  const auto ptx = [&](const char *name) {
    return emit(spec, "performer", Stage::Ptx, options(DType::f32, 8, 8, cuda(name))).value();
  };
  CHECK(ptx("cuda").find(".target sm_90") != std::string::npos);
  CHECK(ptx("cuda:1").find(".target sm_80") != std::string::npos);
}

TEST_CASE("a GPU that is not there is an error when compiling") {
  const Spec spec = Spec::parseFile(specPath("performer")).value();
  CHECK(std::string(compile(spec, "performer", options(DType::f32, 8, 8, cuda("cuda:7"))).error().what()) ==
        "there is no CUDA device 7: the driver sees 2, numbered from 0 to 1");
  for (const char *name : {"cuda:", "cuda:-1", "cuda:1x", "cuda1", "cuda:99999999999"})
    CHECK(!Target::parse(name));
  CHECK(cuda("cuda:1").isRunnable());
}

TEST_CASE("memory of elsewhere is refused by the argument's name") {
  const Subject first = performer("cuda"), second = performer("cuda:1");
  const auto said = [](const Subject &subject, const std::vector<TensorRef> &inputs, const DeviceParameters &parameters,
                       const TensorRef &output) {
    return errorOf([&] { subject.kernel.forward(inputs, parameters, output); });
  };
  std::vector<TensorRef> inputs = first.inputs();
  Tensor host(DType::f32, inputs[1].shape);
  inputs[1] = host.ref();
  CHECK(said(first, inputs, first.parameters, first.output()) ==
        "argument 'K': expected memory of CUDA device 0, found host memory");
  inputs[1] = second.inputs()[1];
  CHECK(said(first, inputs, first.parameters, first.output()) ==
        "argument 'K': expected memory of CUDA device 0, found memory of CUDA device 1");
  CHECK(said(first, first.inputs(), second.parameters, first.output()) ==
        "argument 'favor.W': expected memory of CUDA device 0, found memory of CUDA device 1");
  CHECK(said(first, first.inputs(), first.parameters, second.output()) ==
        "argument 'O': expected memory of CUDA device 0, found memory of CUDA device 1");
  inputs[1] = host.ref().onCuda(0); // what the caller says is not what the driver knows
  CHECK(said(first, inputs, first.parameters, first.output()) ==
        "argument 'K': expected memory of CUDA device 0, found host memory");
  const Subject onHost("performer", "performer", Target::host(), kSizes);
  CHECK(said(onHost, first.inputs(), onHost.parameters, onHost.output()) ==
        "argument 'Q': expected host memory, found memory of CUDA device 0");
  CHECK(said(onHost, onHost.inputs(), first.parameters, onHost.output()) ==
        "argument 'favor.W': expected host memory, found memory of CUDA device 0");
  DeviceGradients gradients;
  first.kernel.backward(first.inputs(), first.parameters, first.grad(), gradients);
  CHECK(errorOf([&] { second.kernel.backward(second.inputs(), second.parameters, second.grad(), gradients); }) ==
        "argument 'gradients': expected memory of CUDA device 1, found memory of CUDA device 0");
}

TEST_CASE("launches give the same bits again, on any stream") {
  const Subject subject("flexformer_n", "flexformer_n_attention", cuda(), {3, 2, 50});
  std::vector<Parameters> results;
  for (uintptr_t i = 0; i < 3; ++i) {
    DeviceGradients gradients;
    subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(i + 30)});
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients,
                            {.stream = stream(i + 30)});
    results.push_back(gradients.download());
    results.back().set("O", subject.tensors.download()["O"]);
  }
  for (const auto &entry : results[0])
    for (const Parameters &other : results)
      CHECK(same(valuesOf(entry.tensor), valuesOf(other[entry.name])));
}

TEST_CASE("a residual on the GPU gives the same output, and gradients from one sweep") {
  const Subject subject("flexformer_n", "flexformer_n_attention", cuda(), {1, 2, 100});
  const std::vector<double> output = forward(subject);
  DeviceGradients plain, kept;
  subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), plain);
  Residual residual;
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.residual = &residual});
  CHECK(same(subject.result(), output));
  CHECK(residual.bytes() > 0);
  subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), kept, {.residual = &residual});
  const Parameters expected = plain.download();
  const double floor = rms(valuesOf(expected["grad.V"]));
  for (const auto &entry : kept.download()) {
    INFO(entry.name);
    CHECK(relativeError(valuesOf(entry.tensor), valuesOf(expected[entry.name]), floor) < 1e-4);
  }
}

TEST_CASE("parameters are updated in place and come back") {
  Subject subject("flexformer_n", "flexformer_n_attention", cuda(), kSizes);
  const void *before = subject.parameters["flexformer_n.W1"].data;
  const std::vector<double> output = forward(subject);
  Parameters changed;
  changed.set("flexformer_n.W1", subject.onHost["flexformer_n.W1"]);
  for (int64_t i = 0; i < changed["flexformer_n.W1"].size(); ++i)
    changed["flexformer_n.W1"].set(i, -2 * changed["flexformer_n.W1"].at(i));
  subject.parameters.update(changed);
  CHECK(subject.parameters["flexformer_n.W1"].data == before);
  CHECK(!same(forward(subject), output));
  CHECK(same(valuesOf(subject.parameters.download()["flexformer_n.W1"]), valuesOf(changed["flexformer_n.W1"])));
  CHECK(subject.parameters.contains("flexformer_n.tau"));
  CHECK(subject.parameters.names().size() == 4);

  Parameters wrong;
  wrong.set("flexformer_n.W1", Tensor(DType::f64, {2, 8, 8}));
  CHECK(errorOf([&] { subject.parameters.update(wrong); }) ==
        "argument 'flexformer_n.W1': expected f32 [2, 8, 8], found f64 [2, 8, 8]");
  Parameters unknown;
  unknown.set("W3", Tensor(DType::f32, {1}));
  CHECK(errorOf([&] { subject.parameters.update(unknown); }) ==
        "argument 'W3': there is no tensor of that name to update");
  CHECK(errorOf([&] { subject.parameters["W3"]; }).starts_with("no tensor 'W3'; there is 'flexformer_n."));
}

TEST_CASE("a caller's memory serves as a parameter and as a gradient") {
  Subject subject = performer("cuda");
  const std::vector<double> output = forward(subject);
  Parameters own;
  own.set("favor.W", subject.onHost["favor.W"]);
  own.set("grad.Q", Tensor(DType::f32, {2, 2, 33, 8}));
  const DeviceParameters memory = subject.kernel.upload(own);
  DeviceParameters lent;
  lent.set("favor.W", memory["favor.W"]);
  subject.kernel.forward(subject.inputs(), lent, subject.output());
  CHECK(same(subject.result(), output));
  DeviceGradients gradients;
  gradients.set("grad.Q", memory["grad.Q"]);
  subject.kernel.backward(subject.inputs(), lent, subject.grad(), gradients);
  CHECK(gradients["grad.Q"].data == memory["grad.Q"].data);
  CHECK(rms(valuesOf(memory.download()["grad.Q"])) > 0);

  TensorRef turned = memory["favor.W"];
  turned.strides = {64, 1, 8};
  CHECK(errorOf([&] { lent.set("favor.W", turned); }) ==
        "argument 'favor.W': expected row-major memory, found shape [2, 8, 8], strides [64, 1, 8]");
  TensorRef constant = memory["favor.W"];
  constant.writable = false;
  CHECK(errorOf([&] { lent.set("favor.W", constant); }) ==
        "argument 'favor.W': expected writable memory, found a pointer to const");
  Tensor host(DType::f32, {2, 8, 8});
  CHECK(errorOf([&] { lent.set("other", host); }) ==
        "argument 'other': expected memory of CUDA device 0, found host memory");
  DeviceGradients narrow;
  narrow.set("grad.Q", memory["favor.W"]);
  CHECK(errorOf([&] { subject.kernel.backward(subject.inputs(), lent, subject.grad(), narrow); }) ==
        "argument 'grad.Q': expected f32 [2, 2, 33, 8], as the gradient is, found f32 [2, 8, 8]");
  DeviceGradients overlapping;
  overlapping.set("grad.Q", subject.inputs()[1]);
  CHECK(errorOf([&] { subject.kernel.backward(subject.inputs(), lent, subject.grad(), overlapping); }) ==
        "argument 'grad.Q': overlaps an argument that is read");
}

TEST_CASE("inputs of another library come by DLPack") {
  const Subject subject = performer("cuda:1");
  const std::vector<double> output = forward(subject);
  std::vector<TensorRef> inputs;
  for (const TensorRef &input : subject.inputs()) {
    dlpack::DLManagedTensor *managed = dlpack::fromRef(input);
    CHECK(managed->dl_tensor.device.device_type == dlpack::kDLCUDA);
    CHECK(managed->dl_tensor.device.device_id == 1);
    inputs.push_back(dlpack::toRef(managed->dl_tensor).value());
    managed->deleter(managed);
  }
  subject.kernel.forward(inputs, subject.parameters, subject.output());
  CHECK(same(subject.result(), output));
}

TEST_CASE("device parameters of a kernel of the host lie on the host, and serve it the same") {
  for (const Target &target : {Target::host(), Target::reference(), Target::parse("emulated").value()}) {
    INFO(target.name());
    const Subject subject("flexformer_n", "flexformer_n_attention", target, {2, 1, 9});
    const std::vector<double> output = forward(subject);
    subject.kernel.forward(subject.inputs(), subject.onHost, subject.output());
    CHECK(same(subject.result(), output));
    DeviceGradients sums;
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), sums);
    subject.kernel.accumulate(subject.inputs(), subject.parameters, subject.grad(), sums);
    Gradients expected;
    subject.kernel.backward(subject.inputs(), subject.onHost, subject.grad(), expected);
    subject.kernel.accumulate(subject.inputs(), subject.onHost, subject.grad(), expected);
    const Parameters found = sums.download();
    for (const auto &entry : expected) {
      INFO(entry.name);
      CHECK(same(valuesOf(found[entry.name]), valuesOf(entry.tensor)));
    }
  }
}

TEST_CASE("empty batches and sequences are launches of nothing") {
  for (const Sizes sizes : {Sizes{0, 2, 5}, Sizes{2, 2, 0}}) {
    const Subject subject("performer", "performer", cuda(), sizes);
    CHECK(forward(subject).empty());
    DeviceGradients gradients;
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients);
    CHECK(rms(valuesOf(gradients.download()["grad.favor.W"])) == 0);
  }
}

TEST_CASE("a crash of a kernel is told with its name") {
  const Subject subject = performer("cuda");
  forward(subject);
  gpus().failures["cuLaunchKernelEx"] = 700;
  const std::string said = errorOf([&] { forward(subject); });
  gpus().failures.clear();
  CHECK(said.starts_with("launching 'forward': cuLaunchKernelEx: FAKE_ERROR_700 (700)"));
}
