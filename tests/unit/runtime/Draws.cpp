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
  program.forward = {linearAttention<float, false>, {"Q", "K", "V", "O", "f.W"}};
  program.draws = {{doubledNoise<float>, {"f.W.noise", "f.W"}}};
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

TEST_CASE("an unknown loss is refused by name") {
  CHECK(message([] { drawing(false).loss("prior", {}, 0); }) == "no loss 'prior' belongs to 'a'; there is none");
}

TEST_CASE("necessary work is counted for each batch and head") {
  CHECK(linear<float>(true).necessaryMultiplyAdds(2, 3, 10, 20) == 2 * 3 * (3 * 10 + 5 * 20));
}

TEST_CASE("an operand that the attention does not have is our mistake, and said") {
  compiler::Program program;
  program.forward = {linearAttention<float, false>, {"Q", "K", "V", "O", "b.gain"}};
  CHECK(message([&] { makeKernel(kBoth, program); }) ==
        "internal error: the compiled code of 'a' has an operand 'b.gain', which is no tensor of it");
}
