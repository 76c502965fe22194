// Few items on a GPU: parts of a sequence on several multiprocessors, states left on the way, and the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/EmulatedDevice.h"
#include "tests/numeric/GradientCase.h"

#include "tests/unit/Catch.h"

using namespace yaglom;
using namespace yaglom::tests;

namespace {

using Launches = std::vector<std::pair<std::string, int64_t>>; ///< kernels and their blocks

Launches namesOf(const runtime::EmulatorReports &reports) {
  Launches names;
  for (const auto &launch : reports.launches)
    names.push_back({launch.kernel, launch.blocks});
  return names;
}

Kernel kernelOf(const std::string &spec, const std::string &attention, DType dtype = DType::bf16, int64_t width = 8) {
  CompileOptions settings = options(dtype, width, width, Target::parse("emulated").value());
  return compiled(Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + spec + ".phi").value(), attention, settings);
}

/// The output of a device with that many multiprocessors, and what it launched.
std::vector<double> runOn(int64_t multiprocessors, const Kernel &kernel, const Data &data, Launches &launches) {
  runtime::EmulatorReports reports;
  reports.multiprocessors = multiprocessors;
  std::vector<double> output = run(kernel, data, 0);
  launches = namesOf(reports);
  return output;
}

} // namespace

TEST_CASE("emulated: few items take parts of the sequence side by side and give the same bits") {
  struct Case {
    const char *spec, *attention;
    Launches expected;
    int64_t width = 8;
  };
  constexpr int64_t kRows = 1560; // three parts of 512 and more; no chunk divides them
  for (const Case &each : {Case{"retention", "retention", {{"advance", 1}, {"forward", 3}}}, // from the state before
                           Case{"hedgehog", "hedgehog_attention", {{"advance", 1}, {"forward", 3}}},
                           // A state of this width is in registers.
                           Case{"flexformer_n", "flexformer_n_attention", {{"advance", 1}, {"forward", 3}}, 32},
                           Case{"fska", "fska_attention", {{"advance", 1}, {"forward", 3}}}}) { // from that of all keys
    INFO(each.attention);
    const Kernel kernel = kernelOf(each.spec, each.attention, DType::bf16, each.width);
    const Data data = makeData(kernel, {1, 1, kRows}, DType::bf16, 0.5);
    Launches many, one;
    const std::vector<double> split = runOn(108, kernel, data, many);
    CHECK(same(split, runOn(1, kernel, data, one)));
    CHECK(many == each.expected);
    CHECK(one == Launches{{"forward", 1}});
  }
}

TEST_CASE("emulated: parts are as many as leave no multiprocessor without work, and none are small") {
  const Kernel kernel = kernelOf("linear_transformer", "linear_transformer", DType::f32);
  const auto launched = [&](int64_t multiprocessors, Sizes sizes) {
    Launches launches;
    runOn(multiprocessors, kernel, makeData(kernel, sizes, DType::f32, 0.5), launches);
    return launches;
  };
  CHECK(launched(4, {1, 2, 1024}) == Launches{{"advance", 2}, {"forward", 4}});
  CHECK(launched(3, {1, 2, 1024}) == Launches{{"forward", 2}});
  CHECK(launched(108, {1, 1, 1023}) == Launches{{"forward", 1}});
}

TEST_CASE("emulated: a quadratic attention takes parts without a state") {
  const Kernel kernel = kernelOf("softmax", "exact");
  const Data data = makeData(kernel, {1, 1, 1030}, DType::bf16, 0.5);
  Launches many, one;
  CHECK(same(runOn(108, kernel, data, many), runOn(1, kernel, data, one)));
  CHECK(many == Launches{{"forward", 2}});
}

TEST_CASE("emulated: one launch leaves all states of a residual, and parts take theirs from it") {
  const Kernel kernel = kernelOf("linear_transformer", "linear_transformer", DType::f32);
  const Data data = makeData(kernel, {1, 1, 1100}, DType::f32, 0.5);
  const Tensor grad = randomGrad(kernel, data.sizes, DType::f32);
  for (const int64_t interval : {1, 5}) {
    INFO("interval " << interval);
    const auto gradientsOn = [&](int64_t multiprocessors, const Launches &expected) {
      runtime::EmulatorReports reports;
      reports.multiprocessors = multiprocessors;
      Gradients found = backward(kernel, data, grad, 1, interval);
      Launches launches = namesOf(reports);
      launches.resize(expected.size());
      CHECK(launches == expected);
      return found;
    };
    const Gradients one = gradientsOn(1, {{"forward", 1}, {"backward", 1}});
    const Gradients many = gradientsOn(108, {{"advance", 1}, {"forward", 2}, {"backward", 1}});
    for (const auto &entry : one)
      CHECK(same(valuesOf(entry.tensor), valuesOf(many[entry.name])));
  }
}
