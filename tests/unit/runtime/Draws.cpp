// Noise, draws and losses through compiled functions: names, shapes, seeds, and what the caller supplies.
// SPDX-License-Identifier: Apache-2.0
#include "support/Random.h"
#include "tests/unit/Catch.h"
#include "tests/unit/runtime/Fake.h"

using namespace yaglom;
using namespace yaglom::fake;

namespace {

constexpr int64_t kRows = 3;

Kernel drawing(bool shared) {
  const std::string text = std::string("map f(x: [d]) { ") + (shared ? "shared " : "") +
                           "draw W: [3, d] ~ gaussian return W @ x } attention a(Q; K, V) = linear(f(Q), f(K), V)";
  compiler::Program program;
  program.forward = {linearAttention<float, false>, {}, {"Q", "K", "V", "O", "f.W"}};
  program.draws = {{doubledNoise<float>, {}, {"f.W.noise", "f.W"}}};
  program.scratchBytes = kScratchBytes;
  return makeKernel(text.c_str(), program);
}

} // namespace

TEST_CASE("noise has a name, a shape, and the bits of its stream") {
  const Parameters noise = drawing(false).noise(2, 11);
  REQUIRE(noise.size() == 1);
  const Tensor &tensor = noise["f.W.noise"];
  CHECK(tensor.shape() == Shape{2, kRows, kWidth});
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t i = 0; i < kRows * kWidth; ++i)
      CHECK(tensor.at(head * kRows * kWidth + i) == float(NormalStream(11, "f.W.noise", uint64_t(head))(uint64_t(i))));
}

TEST_CASE("noise of a shared draw has no heads") {
  CHECK(drawing(true).noise(2, 11)["f.W.noise"].shape() == Shape{kRows, kWidth});
}

TEST_CASE("initial parameters hold the draws of their seed") {
  const Kernel kernel = drawing(false);
  const Parameters parameters = kernel.initialParameters(2, 11);
  const Parameters noise = kernel.noise(2, 11);
  CHECK(parameters["f.W"].shape() == Shape{2, kRows, kWidth});
  for (int64_t i = 0; i < parameters["f.W"].size(); ++i)
    CHECK(parameters["f.W"].at(i) == 2 * noise["f.W.noise"].at(i));
}

TEST_CASE("another seed draws other numbers, the same seed the same") {
  const Kernel kernel = drawing(false);
  Parameters parameters = kernel.initialParameters(2, 11);
  const Tensor first = parameters["f.W"];
  kernel.draw(parameters, 12);
  CHECK(!sameBits(parameters["f.W"], first));
  kernel.draw(parameters, 11);
  CHECK(sameBits(parameters["f.W"], first));
}

TEST_CASE("a head's draw does not depend on how many heads there are") {
  const Kernel kernel = drawing(false);
  const Parameters two = kernel.initialParameters(2, 11), three = kernel.initialParameters(3, 11);
  for (int64_t i = 0; i < two["f.W"].size(); ++i)
    CHECK(two["f.W"].at(i) == three["f.W"].at(i));
}

TEST_CASE("supplied noise overrides the generator") {
  const Kernel kernel = drawing(false);
  Parameters parameters;
  parameters.set("f.W.noise", numbers({2, kRows, kWidth}, 1));
  kernel.draw(parameters, 11);
  for (int64_t i = 0; i < parameters["f.W"].size(); ++i)
    CHECK(parameters["f.W"].at(i) == 2 * parameters["f.W.noise"].at(i));
}

TEST_CASE("supplied noise of a wrong shape is refused") {
  Parameters parameters;
  parameters.set("f.W.noise", Tensor(DType::f32, {2, kRows, 5}));
  CHECK(message([&] { drawing(false).draw(parameters, 11); }) ==
        "argument 'f.W.noise': expected shape [2, 3, 4], found [2, 3, 5]");
}

TEST_CASE("a draw needs to know the number of heads") {
  Parameters parameters;
  CHECK(message([&] { drawing(false).draw(parameters, 11); }) ==
        "no parameter tells the number of heads; start from initialParameters()");
  drawing(true).draw(parameters, 11);
  CHECK(parameters["f.W"].shape() == Shape{kRows, kWidth});
}

TEST_CASE("no heads, a negative number of heads") {
  CHECK(drawing(false).initialParameters(0, 1)["f.W"].shape() == Shape{0, kRows, kWidth});
  CHECK(message([] { drawing(false).initialParameters(-1); }) == "the number of heads must be 0 or more, found -1");
}

TEST_CASE("sampler parameters of a wrong shape or type are refused by draws and losses on every target") {
  const Spec spec = Spec::parse("sampler mix = mixture(components = 3) sampler flow = realnvp(layers = 1, hidden = 2) "
                                "map f(x: [d]) { draw W: [3, d] ~ mix draw U: [2, d] ~ flow return [W @ x; U @ x] } "
                                "attention a(Q; K, V) = linear(f(Q), f(K), V) loss r = kl(flow, mix, samples = 4)")
                        .value();
  for (const Target &target : {Target::host(), Target::reference()}) {
    const Kernel kernel = compile(spec, "a", {.target = target, .headDim = 4}).value();
    const Parameters right = kernel.initialParameters(2, 1);
    const auto spoilt = [&](const char *name, Tensor tensor) {
      Parameters parameters = right;
      parameters.set(name, std::move(tensor));
      const std::string drawn = message([&] { kernel.draw(parameters, 1); });
      CHECK(message([&] { (void)kernel.loss("r", parameters, 1); }) == drawn);
      return drawn;
    };
    CHECK(spoilt("mix.mu", Tensor(DType::f32, {2, 2, 4})) ==
          "argument 'mix.mu': expected shape [2, 3, 4], found [2, 2, 4]");
    CHECK(spoilt("mix.alpha", Tensor(DType::f64, {2, 3})) == "argument 'mix.alpha': expected f32, found f64");
    CHECK(spoilt("flow.0.scale.W0", Tensor(DType::f32, {2, 2, 1})) ==
          "argument 'flow.0.scale.W0': expected shape [2, 2, 2], found [2, 2, 1]");
    Parameters few;
    for (const auto &[name, tensor] : right)
      if (name != "mix.mu")
        few.set(name, tensor);
    CHECK(message([&] { kernel.draw(few, 1); }) == "argument 'mix.mu': missing; expected shape [2, 3, 4]");
  }
}

TEST_CASE("compiled draws and losses are those of the reference") {
  const Spec spec =
      Spec::parse("sampler mix = mixture(components = 3) shared sampler flow = realnvp(layers = 2, hidden = 3) "
                  "map f(x: [d]) { draw W: [5, d] ~ mix draw (A, B): [2, d / 2] ~ flow "
                  "shared draw G: [7, d] ~ orthogonal return [W @ x; G @ x] } "
                  "attention a(Q; K, V) = linear(f(Q), f(K), V) loss r = kl(flow, flow, samples = 4)")
          .value();
  const auto drawn = [&](const Target &target, DType dtype) {
    return compile(spec, "a", {.target = target, .headDim = 4, .dtype = dtype}).value().initialParameters(3, 5);
  };
  for (DType dtype : {DType::f32, DType::f64}) {
    const Parameters host = drawn(Target::host(), dtype), reference = drawn(Target::reference(), dtype);
    REQUIRE(host.size() == reference.size());
    for (const auto &[name, tensor] : host) {
      CAPTURE(name);
      REQUIRE(tensor.shape() == reference[name].shape());
      double largest = 0;
      for (int64_t i = 0; i < tensor.size(); ++i)
        largest = std::max(largest, std::abs(tensor.at(i) - reference[name].at(i)));
      CHECK(largest < (dtype == DType::f32 ? 2e-6 : 1e-14));
    }
  }
}

TEST_CASE("an unknown loss is refused by name") {
  CHECK(message([] { drawing(false).loss("prior", {}, 0); }) == "no loss 'prior' belongs to 'a'; there is none");
}

TEST_CASE("necessary work is counted for each batch and head") {
  CHECK(linear<float>(true).necessaryMultiplyAdds(2, 3, 10, 20) == 2 * 3 * (3 * 10 + 5 * 20));
}

TEST_CASE("an operand that the attention does not have is our mistake, and said") {
  compiler::Program program;
  program.forward = {linearAttention<float, false>, {}, {"Q", "K", "V", "O", "b.gain"}};
  CHECK(message([&] { makeKernel(kBoth, program); }) ==
        "internal error: the compiled code of 'a' has an operand 'b.gain', which is no tensor of it");
}
