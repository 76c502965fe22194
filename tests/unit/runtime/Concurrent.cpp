// Compiling and launching from many threads at a time; the thread sanitizer watches this one.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/Catch.h"
#include "tests/unit/runtime/Fake.h"

#include <barrier>
#include <thread>

using namespace yaglom;
using namespace yaglom::fake;

namespace {

constexpr int kThreads = 16;
const Shape kShape{1, 3, 20, 8};

const char *const kSpecs[] = {
    "attention a(Q; K, V) = linear(Q, K, V) with causal",
    "map f(x: [d]) { param W: [2*d, d] ~ gaussian return [cos(W @ x); sin(W @ x)] } "
    "attention a(Q; K, V) = linear(f(Q), f(K), V) with causal, normalize(signed = 1e-3)",
    "map f(x: [d]) { draw W: [6, d] ~ orthogonal return exp(W @ x - |x|^2 / 2) } "
    "attention a(Q; K, V) = linear(f(Q), f(K), V) with normalize",
    "attention a(Q; K, V) = softmax_attention(Q, K, V) with causal",
};

/// O of one spec, compiled, drawn and launched from nothing.
Tensor compute(const char *text, const Target &target) {
  const Kernel kernel = compile(Spec::parse(text).value(), "a", {.target = target, .headDim = kShape[3]}).value();
  const Tensor q = numbers(kShape, 1), k = numbers(kShape, 2), v = numbers(kShape, 3);
  Tensor o(DType::f32, kShape);
  kernel.forward({q.ref(), k.ref(), v.ref()}, kernel.initialParameters(kShape[1], 1), o, {.threads = 2});
  return o;
}

/// All specs from all threads, each in another order; every result has the bits of the first.
void checkConcurrent(const Target &target) {
  std::vector<std::vector<Tensor>> found(kThreads, std::vector<Tensor>(std::size(kSpecs)));
  std::vector<std::string> errors(kThreads);
  std::barrier start(kThreads);
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      start.arrive_and_wait();
      for (std::size_t i = 0; i < std::size(kSpecs); ++i) {
        const std::size_t spec = (i + thread) % std::size(kSpecs);
        errors[thread] += message([&] { found[thread][spec] = compute(kSpecs[spec], target); });
      }
    });
  threads.clear();
  for (const std::string &error : errors)
    REQUIRE(error == "");
  for (std::size_t spec = 0; spec < std::size(kSpecs); ++spec) {
    const Tensor alone = compute(kSpecs[spec], target);
    for (std::size_t thread = 0; thread < kThreads; ++thread)
      CHECK(sameBits(found[thread][spec], alone));
  }
}

} // namespace

TEST_CASE("sixteen threads compile and launch on the reference") { checkConcurrent(Target::reference()); }
TEST_CASE("sixteen threads compile and launch on the host") { checkConcurrent(Target::host()); }

TEST_CASE("one kernel is launched by many threads, each with threads of its own") {
  const Kernel kernel = linear<float>(true);
  const Shape shape{4, 2, 9, kWidth};
  const Tensor q = numbers(shape, 1), k = numbers(shape, 2), v = numbers(shape, 3);
  Tensor expected(DType::f32, shape);
  kernel.forward({q.ref(), k.ref(), v.ref()}, gains(2), expected, {.threads = 1});
  std::vector<Tensor> found(kThreads, Tensor(DType::f32, shape));
  std::vector<std::jthread> threads;
  for (Tensor &o : found)
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 10; ++repeat)
        kernel.forward({q.ref(), k.ref(), v.ref()}, gains(2), o, {.threads = 3});
    });
  threads.clear();
  for (const Tensor &o : found)
    CHECK(sameBits(o, expected));
}
