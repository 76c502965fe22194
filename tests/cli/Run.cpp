// run: names of tensors, types, what is refused, what is written.
// SPDX-License-Identifier: Apache-2.0
#include "support/Safetensors.h"
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace yaglom;
using namespace yaglom::cli;

namespace {

constexpr const char *kSpec = "specs/good.phi";
const Shape kShape{2, 3, 5, 4}; // B, H, N, d

Tensor numbers(Shape shape, int salt, DType dtype = DType::f64) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, std::sin(static_cast<double>(i * 7 + salt)));
  return tensor;
}

Parameters qkv(DType dtype = DType::f64) {
  Parameters tensors;
  tensors.set("Q", numbers(kShape, 1, dtype));
  tensors.set("K", numbers(kShape, 2, dtype));
  tensors.set("V", numbers(kShape, 3, dtype));
  return tensors;
}

/// An input file with `tensors`.
std::string input(const Parameters &tensors) {
  const std::string path = temporary("in.safetensors");
  safetensors::write(path, tensors).value();
  return path;
}

/// The bytes of a file whose tensors all have the type `dtype`, each element made by `encode`.
template <typename F>
std::string encoded(const Parameters &tensors, const std::string &dtype, F encode) {
  std::string header, data;
  for (const auto &[name, tensor] : tensors) {
    std::string shape;
    for (int64_t size : tensor.shape())
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const std::size_t begin = data.size();
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const auto element = encode(tensor.at(i));
      data.append(reinterpret_cast<const char *>(&element), sizeof(element));
    }
    header += (header.empty() ? "{" : ",") + ("\"" + name) + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof(length)) + header + data;
}

struct RunOutcome : Outcome {
  Parameters tensors; ///< what the output file holds, in float64
};

RunOutcome runFile(const std::string &path, const std::string &attention, std::vector<std::string> more = {},
                   const std::string &target = "reference") {
  const std::string output = temporary("out.safetensors");
  std::remove(output.c_str());
  std::vector<std::string> words{"run", kSpec,      "--attention", attention,  "--input",
                                 path,  "--output", output,        "--target", target};
  words.insert(words.end(), more.begin(), more.end());
  RunOutcome outcome{tool(words), {}};
  if (outcome.code == 0) {
    const safetensors::File file = safetensors::File::read(output).value();
    for (const safetensors::Entry &entry : file.tensors())
      outcome.tensors.set(entry.name, file.load(entry, DType::f64).value());
  }
  return outcome;
}

RunOutcome run(const Parameters &tensors, const std::string &attention, std::vector<std::string> more = {}) {
  return runFile(input(tensors), attention, std::move(more));
}

double largestDifference(const Tensor &a, const Tensor &b) {
  REQUIRE(a.shape() == b.shape());
  double largest = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a.at(i) - b.at(i)));
  return largest;
}

/// gain * sum over j <= i of (q_i . k_j) v_j
Tensor expectedPlain(const Parameters &tensors, double gain) {
  const int64_t length = kShape[2], width = kShape[3];
  Tensor o(DType::f64, kShape);
  for (int64_t item = 0; item < kShape[0] * kShape[1]; ++item)
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double weight = 0;
        for (int64_t c = 0; c < width; ++c)
          weight += tensors["Q"].at((item * length + i) * width + c) * tensors["K"].at((item * length + j) * width + c);
        for (int64_t c = 0; c < width; ++c) {
          const int64_t place = (item * length + i) * width + c;
          o.set(place, o.at(place) + gain * weight * tensors["V"].at((item * length + j) * width + c));
        }
      }
  return o;
}

} // namespace

TEST_CASE("run computes O from the tensors of a file") {
  const RunOutcome outcome = run(qkv(), "plain", {"--dtype", "f64"});
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  CHECK(outcome.tensors.size() == 1);
  CHECK(largestDifference(outcome.tensors["O"], expectedPlain(qkv(), 2)) < 1e-14);
}

TEST_CASE("host and reference agree, draws and losses included") {
  Parameters tensors = qkv();
  Tensor gates(DType::f64, {2, 3, 5});
  for (int64_t i = 0; i < gates.size(); ++i)
    gates.set(i, 0.5 + 0.03 * static_cast<double>(i % 7));
  tensors.set("g", gates);
  for (const char *attention : {"both", "gated", "plain"}) {
    std::vector<std::string> more{"--dtype", "f64", "--draws", "--chunk", "16"};
    if (std::string(attention) != "plain")
      more.insert(more.end(), {"--loss", "prior"});
    const RunOutcome reference = runFile(input(tensors), attention, more);
    const RunOutcome host = runFile(input(tensors), attention, more, "host");
    CHECK(host.err == "");
    REQUIRE(host.tensors.size() == reference.tensors.size());
    for (const auto &[name, tensor] : reference.tensors)
      CHECK(largestDifference(host.tensors[name], tensor) < 1e-11);
  }
}

TEST_CASE("the run's type is that of the output") {
  run(qkv(), "plain");
  const safetensors::File file = safetensors::File::read(temporary("out.safetensors")).value();
  CHECK(file.find("O")->dtype == "F32");
  run(qkv(), "plain", {"--dtype", "f64"});
  CHECK(safetensors::File::read(temporary("out.safetensors")).value().find("O")->dtype == "F64");
}

TEST_CASE("a parameter in the file replaces the initial value") {
  Parameters tensors = qkv();
  Tensor gain(DType::f64, {3});
  for (int64_t head = 0; head < 3; ++head)
    gain.set(head, -1);
  tensors.set("plain.gain", gain);
  const RunOutcome outcome = run(tensors, "plain", {"--dtype", "f64"});
  REQUIRE(outcome.code == 0);
  CHECK(largestDifference(outcome.tensors["O"], expectedPlain(qkv(), -1)) < 1e-14);
}

TEST_CASE("half types are read") {
  const auto bfloat = [](double x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(float(x)) >> 16); };
  const std::string path = temporary("half.safetensors");
  writeFile(path, encoded(qkv(), "BF16", bfloat));
  const RunOutcome outcome = runFile(path, "plain", {"--dtype", "f64"});
  REQUIRE(outcome.code == 0);
  const double difference = largestDifference(outcome.tensors["O"], expectedPlain(qkv(), 2));
  CHECK(difference < 0.3);
  CHECK(difference > 1e-6);
  writeFile(path, encoded(qkv(), "F16", [](double) { return uint16_t{0x3c00}; })); // 1
  CHECK(runFile(path, "plain", {"--dtype", "f64"}).tensors["O"].at(0) == 8);       // 2 * (1 . 1) * 1
}

TEST_CASE("integers are refused") {
  const std::string path = temporary("integers.safetensors");
  writeFile(path, encoded(qkv(), "I32", [](double) { return int32_t{1}; }));
  const RunOutcome outcome = runFile(path, "plain");
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("'Q'") != std::string::npos);
  CHECK(outcome.err.find("I32") != std::string::npos);
}

TEST_CASE("draws follow the seed, and are written on request") {
  const RunOutcome one = run(qkv(), "both", {"--seed", "5", "--draws"});
  REQUIRE(one.code == 0);
  CHECK(one.tensors["draw.features.W"].shape() == Shape{3, 6, 4});
  CHECK(largestDifference(run(qkv(), "both", {"--seed", "5"}).tensors["O"], one.tensors["O"]) == 0);
  CHECK(largestDifference(run(qkv(), "both", {"--seed", "6"}).tensors["O"], one.tensors["O"]) > 0);
}

TEST_CASE("a supplied draw overrides the sampler, and supplied noise the generator") {
  Parameters tensors = qkv();
  tensors.set("features.W", numbers({3, 6, 4}, 4));
  const RunOutcome drawn = run(tensors, "both", {"--dtype", "f64", "--draws"});
  REQUIRE(drawn.code == 0);
  CHECK(largestDifference(drawn.tensors["draw.features.W"], tensors["features.W"]) == 0);

  tensors = qkv();
  tensors.set("features.W.noise", Tensor(DType::f64, {3, 6, 4}));
  tensors.set("mix.mu", numbers({3, 3, 4}, 5));
  const RunOutcome noiseless = run(tensors, "both", {"--dtype", "f64", "--draws"});
  REQUIRE(noiseless.code == 0);
  // Without noise every row is the mean of its component; six rows, three components, equal weights.
  for (int64_t head = 0; head < 3; ++head)
    for (int64_t i = 0; i < 24; ++i)
      CHECK(noiseless.tensors["draw.features.W"].at(head * 24 + i) ==
            tensors["mix.mu"].at(head * 12 + i / 8 * 4 + i % 4));
}

TEST_CASE("losses are written on request") {
  const RunOutcome outcome = run(qkv(), "both", {"--dtype", "f64", "--loss", "prior"});
  REQUIRE(outcome.code == 0);
  CHECK(outcome.tensors["loss.prior"].shape() == Shape{3});
  const RunOutcome unknown = run(qkv(), "both", {"--loss", "posterior"});
  CHECK(unknown.code == 1);
  CHECK(unknown.err == "no loss 'posterior' belongs to 'both'; there is 'prior'\n");
}

TEST_CASE("dims that are set bind the draws") {
  const RunOutcome outcome = run(qkv(), "both", {"--set", "m=2", "--draws"});
  REQUIRE(outcome.code == 0);
  CHECK(outcome.tensors["draw.features.W"].shape() == Shape{3, 2, 4});
}

TEST_CASE("missing inputs are named, all of them") {
  Parameters tensors;
  tensors.set("K", numbers(kShape, 2));
  const RunOutcome outcome = run(tensors, "gated");
  CHECK(outcome.code == 1);
  CHECK(outcome.err == temporary("in.safetensors") + ": missing inputs 'Q', 'V', 'g'\n");
}

TEST_CASE("a tensor that the spec does not declare is refused by name") {
  Parameters tensors = qkv();
  tensors.set("features.w", Tensor(DType::f64, {1}));
  const RunOutcome outcome = run(tensors, "both");
  CHECK(outcome.code == 1);
  CHECK(outcome.err == temporary("in.safetensors") + ": 'features.w' is no tensor that specs/good.phi declares\n");
}

TEST_CASE("expected results and gradients are ignored, and so is what other attentions declare") {
  Parameters tensors = qkv();
  for (const char *name : {"expect.O", "expect.grad.V", "grad.O", "g", "plain.gain", "prior.noise", "mix.alpha"})
    tensors.set(name, Tensor(DType::f64, std::string(name) == "mix.alpha" ? Shape{3, 3} : Shape{1}));
  tensors.set("prior.noise", Tensor(DType::f64, {3, 32, 4}));
  const RunOutcome outcome = run(tensors, "both");
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
}

TEST_CASE("a tensor of a wrong shape is named with both shapes") {
  Parameters tensors = qkv();
  tensors.set("K", numbers({2, 3, 5, 3}, 2));
  CHECK(run(tensors, "plain").err == "argument 'K': expected shape [2, 3, N, 4], found [2, 3, 5, 3]\n");
  tensors = qkv();
  tensors.set("plain.gain", Tensor(DType::f64, {2}));
  const RunOutcome outcome = run(tensors, "plain");
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "argument 'plain.gain': expected shape [3], found [2]\n");
  tensors.set("Q", numbers({5, 4}, 2));
  CHECK(run(tensors, "plain").err == "argument 'Q': expected shape [B, H, N, 4], found [5, 4]\n");
}

TEST_CASE("empty batches and sequences are computed") {
  for (const Shape &shape : {Shape{0, 3, 5, 4}, Shape{2, 0, 5, 4}, Shape{2, 3, 0, 4}}) {
    Parameters tensors;
    for (const char *name : {"Q", "K", "V"})
      tensors.set(name, Tensor(DType::f64, shape));
    const RunOutcome outcome = run(tensors, "both");
    CHECK(outcome.err == "");
    CHECK(outcome.tensors["O"].shape() == shape);
  }
}

TEST_CASE("a broken file is refused with its path") {
  const std::string path = temporary("broken.safetensors");
  writeFile(path, std::string(8, '\xff') + "{}");
  const RunOutcome broken = runFile(path, "plain");
  CHECK(broken.code == 1);
  CHECK(broken.err.starts_with(path));
  CHECK(runFile(temporary("none.safetensors"), "plain").code == 1);
}

TEST_CASE("an output that cannot be written is a failure") {
  const Outcome outcome = tool({"run", kSpec, "--attention", "plain", "--input", input(qkv()), "--output",
                                temporary("none/out.safetensors"), "--target", "reference"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("none/out.safetensors") != std::string::npos);
}

TEST_CASE("run with --backward reads grad.O and writes a gradient for every tensor") {
  Parameters tensors = qkv();
  const std::string path = temporary("gradients.safetensors");
  const auto backward = [&] {
    return tool({"run", kSpec, "--attention", "both", "--input", input(tensors), "--output", path, "--dtype", "f64",
                 "--backward"});
  };
  CHECK(backward().err.find("missing 'grad.O'") != std::string::npos);
  tensors.set("grad.O", numbers(kShape, 4));
  const Outcome outcome = backward();
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  const safetensors::File file = safetensors::File::read(path).value();
  for (const char *name : {"O", "grad.Q", "grad.K", "grad.V"}) {
    INFO(name);
    REQUIRE(file.find(name));
    CHECK(file.find(name)->shape == kShape);
  }
}

TEST_CASE("run with --residual writes the same gradients but for rounding, and needs --backward") {
  Parameters tensors = qkv();
  tensors.set("grad.O", numbers(kShape, 4));
  const std::string from = input(tensors), path = temporary("residual.safetensors");
  const auto gradient = [&](const std::vector<std::string> &more) {
    std::vector<std::string> command = {"run", kSpec,      "--attention", "plain",   "--input",
                                        from,  "--output", path,          "--dtype", "f64"};
    command.insert(command.end(), more.begin(), more.end());
    return tool(command);
  };
  std::vector<Tensor> found;
  for (const std::vector<std::string> &more :
       {std::vector<std::string>{"--backward"}, {"--backward", "--residual", "1"}}) {
    REQUIRE(gradient(more).code == 0);
    const safetensors::File file = safetensors::File::read(path).value();
    found.push_back(file.load(*file.find("grad.K"), DType::f64).value());
  }
  for (int64_t i = 0; i < found[0].size(); ++i)
    CHECK(std::fabs(found[1].at(i) - found[0].at(i)) <= 1e-12 * (1 + std::fabs(found[0].at(i))));
  CHECK(gradient({"--residual", "1"}).code == 2);
  CHECK(gradient({"--backward", "--residual", "0"}).code == 2);
}
