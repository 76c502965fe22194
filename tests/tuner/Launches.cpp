// What launches make of tuned schedules: which they use, that results stay what they are, and when they tune.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compiled.h"
#include "runtime/tune/Record.h"
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Tolerance.h"
#include "tests/tuner/Subject.h"

#include <cmath>
#include <fstream>
#include <random>

using namespace yaglom;
using namespace yaglom::tests;
using runtime::tune::launchesTuned;

namespace {

/// States that `text` is the fastest for launches of this length and one head.
void plant(const std::string &text, Pass pass, int64_t length) {
  const auto compiled = runtime::compileShared(smallSpec(), "a", smallOptions()).value();
  const auto bucket = runtime::Bucket::of({1, 1, length, length}, runtime::workersOf(*compiled));
  runtime::tune::keepRecord(runtime::tune::recordKey(*compiled, pass, bucket),
                            {.chosen = schedule(text), .complete = true, .candidates = {}});
}

struct Case {
  explicit Case(int64_t length, const CompileOptions &options = smallOptions())
      : kernel(compile(smallSpec(), "a", options).value()), data(makeData(kernel, {1, 1, length}, DType::f32, 0.5)) {}

  Tensor input(std::size_t index) const { return toType(data.inputs[index], DType::f32); }

  std::vector<double> forward(int threads = 1) const { return run(kernel, data, threads); }

  /// Forward, which fills a residual, and the gradient from that.
  Gradients backward(int64_t interval, std::vector<double> *output = nullptr) const {
    const Tensor q = input(0), k = input(1), v = input(2);
    Tensor o(DType::f32, q.shape());
    Parameters parameters;
    for (const auto &entry : data.parameters)
      parameters.set(entry.name, toType(entry.tensor, DType::f32));
    Residual residual(std::max<int64_t>(interval, 1));
    Residual *kept = interval ? &residual : nullptr;
    kernel.forward({q.ref(), k.ref(), v.ref()}, parameters, o, {.threads = 1, .residual = kept});
    for (int64_t i = 0; output && i < o.size(); ++i)
      output->push_back(o.at(i));
    return kernel.backward({q.ref(), k.ref(), v.ref()}, parameters, q.ref(), {.threads = 1, .residual = kept});
  }

  Kernel kernel;
  Data data;
};

double difference(const Tensor &one, const Tensor &two) {
  double sum = 0, size = 0;
  for (int64_t i = 0; i < one.size(); ++i) {
    sum += (one.at(i) - two.at(i)) * (one.at(i) - two.at(i));
    size += two.at(i) * two.at(i);
  }
  return std::sqrt(sum / size);
}

} // namespace

TEST_CASE("a launch uses the schedule of its bucket, other buckets do not") {
  const CacheOfTest folder;
  plant("chunk=16", Pass::Forward, 100);
  const Case tuned(100), longer(200);
  const Case by16(100, {.headDim = 8, .valueDim = 8, .schedule = {.chunk = 16}});
  const Case own(100, {.headDim = 8, .valueDim = 8, .schedule = {.chunk = 32}});
  const Case ownLonger(200, {.headDim = 8, .valueDim = 8, .schedule = {.chunk = 32}});
  REQUIRE(!same(by16.forward(), own.forward())); // chunks of 16 round otherwise than those of 32
  CHECK(same(tuned.forward(), by16.forward()));
  CHECK(same(longer.forward(), ownLonger.forward()));
  setTuning({.mode = TuneMode::Off});
  CHECK(same(tuned.forward(), own.forward()));
  setTuning({.mode = TuneMode::Load});
  CHECK(same(tuned.forward(), by16.forward()));
  plant("default", Pass::Forward, 100);
  CHECK(same(tuned.forward(), own.forward()));
}

TEST_CASE("a schedule that does not compile is a warning, and the compiler's own is used") {
  const CacheOfTest folder;
  std::vector<std::string> warnings;
  onWarning([&](const std::string &text) { warnings.push_back(text); });
  const auto compiled = runtime::compileShared(smallSpec(), "a", smallOptions()).value();
  const auto bucket = runtime::Bucket::of({1, 1, 50, 50}, runtime::workersOf(*compiled));
  const auto key = runtime::tune::recordKey(*compiled, Pass::Forward, bucket);
  std::ofstream(folder.path + "/" + key.digest() + ".entry") << "no entry";
  const Case own(50, {.headDim = 8, .valueDim = 8, .schedule = {.chunk = 32}});
  CHECK(same(Case(50).forward(), own.forward())); // damaged: as if there were none
  onWarning(nullptr);
  CHECK(warnings.empty());
}

TEST_CASE("with tuned schedules outputs have the same bits with a residual, and gradients hold by any interval") {
  const CacheOfTest folder;
  const std::pair<const char *, const char *> pairs[] = {
      {"chunk=64", "unroll=2"}, {"chunk=16", "default"}, {"default", "chunk=8"}};
  for (const auto &[forward, backward] : pairs) {
    INFO(forward << ", " << backward);
    plant(forward, Pass::Forward, 150);
    plant("chunk=16", Pass::Backward, 150);
    plant(backward, Pass::BackwardFromResidual, 150);
    const Case tuned(150);
    const std::vector<double> plain = tuned.forward();
    std::vector<double> kept;
    const Gradients without = tuned.backward(0), every = tuned.backward(1, &kept), third = tuned.backward(3);
    CHECK(same(plain, kept));
    for (const auto &entry : without) {
      CHECK(difference(every[entry.name], entry.tensor) < 1e-4);
      CHECK(difference(third[entry.name], every[entry.name]) == 0);
    }
  }
}

TEST_CASE("every field of a schedule changes rounding at most") {
  const CacheOfTest folder;
  CompileOptions exact = smallOptions();
  exact.target = Target::reference();
  exact.dtype = DType::f64;
  const Case reference(150, exact);
  const std::vector<double> expected = reference.forward();
  for (const char *text : {"chunk=8", "chunk=128 granule=32", "granule=8", "tile=12x1 prefetch=none",
                           "tile=3x2 unroll=1", "tile=2x4 pointwise=8", "unroll=8 prefetch=4"}) {
    INFO(text);
    CompileOptions options = smallOptions();
    options.schedule = schedule(text);
    Case by(150, options);
    by.data = reference.data;
    const std::vector<double> found = by.forward();
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      sum += (found[i] - expected[i]) * (found[i] - expected[i]);
      size += expected[i] * expected[i];
    }
    CHECK(std::sqrt(sum / size) < tolerance(DType::f32, 150));
  }
  for (const char *text : {"warps=4 stages=1", "chunk=64 warps=16", "chunk=16 warps=2"}) {
    INFO(text);
    CompileOptions options = smallOptions();
    options.target = Target::parse("emulated").value();
    options.schedule = schedule(text);
    CompileOptions own = options;
    own.schedule = {};
    const std::vector<double> found = Case(70, options).forward(), usual = Case(70, own).forward();
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == Approx(usual[i]).epsilon(1e-3).margin(1e-3));
  }
}

TEST_CASE("any number of segments gives the same bits") {
  const CacheOfTest folder;
  const std::vector<double> whole = Case(5000).forward(1);
  for (const int64_t segments : {1, 3}) {
    CompileOptions options = smallOptions();
    options.schedule.segments = segments;
    CHECK(same(Case(5000, options).forward(2), whole));
  }
}

TEST_CASE("two hundred random lengths in 1k to 8k tune at most four times, and the user's tensors stay as they are") {
  const CacheOfTest folder;
  setTuning({.mode = TuneMode::On, .budgetSeconds = 0.3});
  const int64_t before = launchesTuned();
  const Kernel kernel = compile(smallSpec(), "a", smallOptions()).value();
  const Parameters parameters = kernel.initialParameters(1);
  const Data data = makeData(kernel, {1, 1, 8000}, DType::f32, 0.5);
  const Tensor all = toType(data.inputs[0], DType::f32), copy = all;
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> length(1000, 8000);
  for (int i = 0; i < 200; ++i) {
    const Shape shape{1, 1, length(random), 8};
    const TensorRef input(all.data(), DType::f32, shape);
    Tensor output(DType::f32, shape);
    kernel.forward({input, input, input}, parameters, output, {.threads = 1});
    REQUIRE(std::isfinite(output.at(output.size() - 1)));
  }
  CHECK(launchesTuned() - before <= 4);
  CHECK(launchesTuned() - before >= 3);
  for (int64_t i = 0; i < all.size(); ++i)
    REQUIRE(all.at(i) == copy.at(i));
  setTuning({.mode = TuneMode::Load});
}

TEST_CASE("schedules go out to a file and come back from it") {
  const CacheOfTest folder;
  plant("chunk=16", Pass::Forward, 100);
  plant("chunk=64", Pass::Backward, 100);
  const std::string path = folder.path + "/schedules.json";
  CHECK(exportSchedules(path).value() == 2);
  const CacheFolder here(folder.path);
  here.clear().value();
  setTuning({.mode = TuneMode::Load}); // looks again
  const Case by16(100, {.headDim = 8, .valueDim = 8, .schedule = {.chunk = 16}});
  const Case own(100, {.headDim = 8, .valueDim = 8, .schedule = {.chunk = 32}});
  CHECK(same(Case(100).forward(), own.forward()));
  const ImportedSchedules imported = importSchedules(path).value();
  CHECK(imported.used == 2);
  CHECK(imported.foreign == 0);
  CHECK(same(Case(100).forward(), by16.forward()));
}

TEST_CASE("a file of schedules that is none, or of another machine, is told") {
  const CacheOfTest folder;
  const std::string path = folder.path + "/schedules.json";
  const auto errorOf = [&](const std::string &text) -> std::string {
    std::ofstream(path) << text;
    const Result<ImportedSchedules> imported = importSchedules(path);
    return imported ? "" : imported.error().what();
  };
  const std::string expected = path + ": expected tuned schedules, as 'yaglom cache export-schedules' writes them";
  CHECK(errorOf("") == expected);
  CHECK(errorOf("{}") == expected);
  CHECK(errorOf(std::string(100000, '[')) == expected);
  CHECK(errorOf(R"({"yaglom schedules": 2, "entries": []})") == path + ": expected version 1 of the format");
  CHECK(errorOf(R"({"yaglom schedules": 1, "entries": 3})") == path + ": 'entries' is no list");
  CHECK(errorOf(R"({"yaglom schedules": 1, "entries": [3]})") ==
        path + ": entry 1: expected an object with 'key' and 'record'");
  CHECK(errorOf(R"({"yaglom schedules": 1, "entries": [{"key": "kind: forward\n", "record": {}}]})") ==
        path + ": entry 1: its key is of another kind");
  CHECK(errorOf(R"({"yaglom schedules": 1, "entries": [{"key": "kind: schedule\n", "record": {}}]})") ==
        path + ": entry 1: a tuned schedule: member 'chosen' is missing or of another kind");
  const std::string foreign =
      R"({"yaglom schedules": 1, "entries": [{"key": "kind: schedule\nwhat: a\nbuild: x\n)"
      R"(machine: y\n", "record": {"chosen": "default", "complete": true, "candidates": []}}]})";
  CHECK(errorOf(foreign) == "");
  CHECK(importSchedules(path).value().foreign == 1);
  CHECK(importSchedules(folder.path + "/none").error().what() == folder.path + "/none: cannot be read");
}
