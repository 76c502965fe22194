// What a prepared launch does not do, what a captured one may not, and that a replay computes.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/Gpu.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/GradientCase.h"

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr Sizes kSizes{2, 2, 40};

Subject makeSubject(int64_t chunk = 0, DType dtype = DType::f32) {
  // Another chunk is another kernel, which no other test has loaded.
  CompileOptions settings = options(dtype, 8, 8, cuda(), chunk);
  settings.dims["n"] = 8;
  const Spec spec = Spec::parseFile(specPath("flexformer_n")).value();
  return {compiled(spec, "flexformer_n_attention", settings), kSizes};
}

Prepare preparation(void *stream) {
  return {.batch = kSizes.batch, .heads = kSizes.heads, .queryLength = kSizes.rows, .stream = stream};
}

} // namespace

TEST_CASE("between prepare and launch nothing is allocated, loaded, waited for or asked") {
  const Subject subject = makeSubject();
  DeviceGradients gradients;
  Residual residual;
  Prepare options = preparation(stream(20));
  options.gradients = &gradients;
  subject.kernel.prepare(options);
  options.residual = &residual;
  subject.kernel.prepare(options);
  const auto launchAll = [&] {
    subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(20)});
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients, {.stream = stream(20)});
    subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(),
                           {.residual = &residual, .stream = stream(20)});
    subject.kernel.accumulate(subject.inputs(), subject.parameters, subject.grad(), gradients,
                              {.residual = &residual, .stream = stream(20)});
  };
  forgetCalls();
  launchAll();
  CHECK(forbiddenCalls() == std::vector<std::string>{});
  CHECK(gpus().launches.size() > 8);
  for (const fakecuda::FakeLaunch &launch : gpus().launches) {
    CHECK(launch.stream == stream(20));
    CHECK(launch.grid[1] == 1);
    CHECK(launch.grid[2] == 1);
  }
}

TEST_CASE("a smaller launch than the prepared one allocates nothing either, and the second of any size does not") {
  const Subject subject = makeSubject();
  subject.kernel.prepare({.batch = 3, .heads = 2, .queryLength = 300, .stream = stream(21)});
  forgetCalls();
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(21)});
  CHECK(forbiddenCalls().empty());

  DeviceGradients gradients;
  const auto launch = [&] {
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients, {.stream = stream(22)});
  };
  launch();
  forgetCalls();
  launch();
  CHECK(forbiddenCalls().empty());
}

TEST_CASE("a prepared kernel allocates nothing for fewer items than were prepared, whose sequences go in parts") {
  CompileOptions settings = options(DType::bf16, 8, 8, cuda());
  const Kernel kernel =
      compiled(Spec::parseFile(specPath("linear_transformer")).value(), "linear_transformer", settings);
  const Subject subject(kernel, {1, 2, 1030});
  Residual residual;
  kernel.prepare({.batch = 100, .heads = 2, .queryLength = 1030, .residual = &residual, .stream = stream(28)});
  kernel.prepare({.batch = 100, .heads = 2, .queryLength = 1030, .stream = stream(28)});
  forgetCalls();
  beginCapture(stream(28));
  kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(28)});
  kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.residual = &residual, .stream = stream(28)});
  endCapture(stream(28));
  CHECK(forbiddenCalls() == std::vector<std::string>{});
  replay(stream(28));
  std::vector<unsigned> blocks;
  for (const fakecuda::FakeLaunch &launch : gpus().launches)
    blocks.push_back(launch.grid[0]);
  CHECK(blocks == std::vector<unsigned>{2, 4, 2, 4}); // a run ahead, then the parts
}

TEST_CASE("the grid has one block in x for every batch and head") {
  const Subject subject = makeSubject();
  forgetCalls();
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output());
  REQUIRE(gpus().launches.size() == 1);
  CHECK(gpus().launches[0].grid[0] == kSizes.batch * kSizes.heads);
}

TEST_CASE("a captured launch runs when its graph does, on what memory then holds") {
  const Subject subject = makeSubject();
  DeviceGradients gradients;
  Prepare options = preparation(stream(23));
  options.gradients = &gradients;
  subject.kernel.prepare(options);
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(24)});
  subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients, {.stream = stream(24)});
  const std::vector<double> expected = subject.result();
  const Parameters expectedGradients = gradients.download();

  Parameters cleared;
  cleared.set("O", Tensor(DType::f32, {kSizes.batch, kSizes.heads, kSizes.rows, 8}));
  const_cast<DeviceParameters &>(subject.tensors).update(cleared);
  beginCapture(stream(23));
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(23)});
  subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients, {.stream = stream(23)});
  endCapture(stream(23));
  CHECK(rms(subject.result()) == 0);
  for (int i = 0; i < 2; ++i) {
    replay(stream(23));
    CHECK(same(subject.result(), expected));
    const Parameters found = gradients.download();
    for (const auto &entry : expectedGradients)
      CHECK(same(valuesOf(found[entry.name]), valuesOf(entry.tensor)));
  }
}

TEST_CASE("a cold launch into a capture says what to do, and leaves the capture whole") {
  const std::string advice =
      " while the stream is being captured into a graph: before capturing, prepare() the kernel for "
      "these sizes and upload() its parameters";
  const Subject subject = makeSubject(16);
  const auto forward = [&] {
    subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(25)});
  };
  beginCapture(stream(25));
  // drawn parameters or none: the code is in the same module, so it may be loaded; its scratch is not there
  CHECK(errorOf(forward) == "kernel 'forward' cannot be loaded" + advice);
  endCapture(stream(25));
  subject.kernel.prepare(preparation(stream(25)));
  beginCapture(stream(25));
  CHECK(errorOf(forward) == "");
  const auto wider = [&] {
    DeviceGradients gradients;
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients, {.stream = stream(25)});
  };
  CHECK(errorOf(wider).find(" bytes for gradients cannot be allocated" + advice) != std::string::npos);
  const auto byHost = [&] {
    subject.kernel.forward(subject.inputs(), subject.onHost, subject.output(), {.stream = stream(25)});
  };
  const std::string said = errorOf(byHost);
  CHECK(said.starts_with("argument 'flexformer_n."));
  CHECK(said.find("', which is in host memory, cannot be copied" + advice) != std::string::npos);
  CHECK(errorOf([&] { subject.parameters.download(stream(25)); }) == "memory cannot be copied to the host" + advice);
  CHECK(errorOf([&] { subject.kernel.upload(subject.onHost, stream(25)); }).find("bytes for parameters cannot be") !=
        std::string::npos);
  endCapture(stream(25));
}

TEST_CASE("scratch that is too small is an error into a capture, and grows outside of one") {
  const Subject subject = makeSubject();
  DeviceGradients gradients;
  Prepare options{.batch = 1, .heads = 1, .queryLength = 8, .backward = true, .stream = stream(26)};
  subject.kernel.prepare(options);
  const auto launch = [&] {
    subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients, {.stream = stream(26)});
  };
  Prepare room = preparation(stream(27)); // the tensors, by another stream
  room.gradients = &gradients;
  subject.kernel.prepare(room);
  beginCapture(stream(26));
  CHECK(errorOf(launch).find(" bytes for scratch cannot be allocated while the stream is being captured") !=
        std::string::npos);
  endCapture(stream(26));
  launch();
  forgetCalls();
  launch();
  CHECK(forbiddenCalls().empty());
}

TEST_CASE("sizes to prepare for are checked") {
  const Subject subject = makeSubject();
  CHECK(errorOf([&] { subject.kernel.prepare({.batch = 0}); }) == "argument 'batch': expected 1 or more, found 0");
  CHECK(errorOf([&] { subject.kernel.prepare({.queryLength = 5, .keyLength = 6}); }) ==
        "argument 'keyLength': expected 5, as queryLength, found 6");
}

TEST_CASE("a kernel of the host can be prepared, and has no streams") {
  const Subject subject("linear_transformer", "linear_transformer", Target::host(), {1, 1, 5});
  Residual residual;
  subject.kernel.prepare({.queryLength = 5, .backward = true, .residual = &residual});
  CHECK(residual.bytes() > 0);
  const std::string refused = "argument 'stream': expected none (null): the kernel runs on the host";
  CHECK(errorOf([&] { subject.kernel.prepare({.stream = stream(1)}); }) == refused);
  CHECK(errorOf([&] {
          subject.kernel.forward(subject.inputs(), subject.onHost, subject.output(), {.stream = stream(1)});
        }) == refused);
}
