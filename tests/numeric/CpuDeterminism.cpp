// The same bits whatever else is computed: threads, batch, heads, repetition. Chunk sizes agree to rounding.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <cmath>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

/// Calls `visit(spec, name)` for every attention of every spec.
template <typename F>
void forEveryAttention(F visit) {
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions()) {
      INFO(name);
      visit(spec, name);
    }
  }
}

/// `tensor` with entries along `axis` taken from `order`.
Tensor permuted(const Tensor &tensor, std::size_t axis, const std::vector<int64_t> &order) {
  Shape shape = tensor.shape();
  int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i)
    inner *= shape[i];
  const int64_t old = shape[axis];
  shape[axis] = static_cast<int64_t>(order.size());
  Tensor result(tensor.dtype(), shape);
  for (int64_t i = 0; i < result.size(); ++i) {
    const int64_t place = i / inner % shape[axis], outer = i / inner / shape[axis];
    result.set(i, tensor.at((outer * old + order[static_cast<std::size_t>(place)]) * inner + i % inner));
  }
  return result;
}

/// Heads, or batches, in another order, or only some of them.
Data permuted(const Data &data, bool heads, const std::vector<int64_t> &order) {
  Data result = data;
  (heads ? result.sizes.heads : result.sizes.batch) = static_cast<int64_t>(order.size());
  for (Tensor &tensor : result.inputs)
    tensor = permuted(tensor, heads ? 1 : 0, order);
  if (heads)
    for (const Parameters::Entry &entry : data.parameters)
      result.parameters.set(entry.name, permuted(entry.tensor, 0, order));
  return result;
}

std::vector<double> permutedOutput(const std::vector<double> &output, const Data &data, int64_t width, bool heads,
                                   const std::vector<int64_t> &order) {
  Tensor tensor(DType::f64, {data.sizes.batch, data.sizes.heads, data.sizes.rows, width});
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, output[static_cast<std::size_t>(i)]);
  const Tensor result = permuted(tensor, heads ? 1 : 0, order);
  std::vector<double> values;
  for (int64_t i = 0; i < result.size(); ++i)
    values.push_back(result.at(i));
  return values;
}

} // namespace

// Threads of the processor: what GPUs do instead is in GpuCounters.cpp and GpuParts.cpp.
TEST_CASE("one and two threads give the same bits every time", "[cpu-only]") {
  forEveryAttention([](const Spec &spec, const std::string &name) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = compiled(spec, name, options(dtype, 8, 6));
      const Data data = makeData(kernel, {2, 3, 70}, dtype, 0.5);
      const std::vector<double> first = run(kernel, data, 1);
      bool equal = true;
      for (int time = 0; time < 20; ++time)
        equal &= same(run(kernel, data, 1 + time % 2), first);
      CHECK(equal);
    }
  });
}

TEST_CASE("a long head that threads share gives the bits of one thread", "[cpu-only]") {
  constexpr int64_t kRows = 3100;
  forEveryAttention([](const Spec &spec, const std::string &name) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = compiled(spec, name, options(dtype, 8, 6));
      const Data data = makeData(kernel, {1, 1, kRows}, dtype, 0.5);
      const std::vector<double> one = run(kernel, data, 1);
      CHECK(countNonFinite(one) == 0);
      for (const int threads : {2, 3, 9})
        CHECK(same(run(kernel, data, threads), one));
    }
  });
}

TEST_CASE("threads share a head in the same bits whatever its exponents, decays and masks are", "[cpu-only]") {
  const std::string text = R"(
map expmap(x: [d]) = exp(x)
map common(x: [d]) = exp(|x|^2) * (1.5 + tanh(x))
attention each(Q; K, V) = linear(expmap(Q), expmap(K), V) with causal, normalize
attention all(Q; K, V) = linear(common(Q), common(K), V) with causal, normalize
attention both(Q; K, V) = linear(expmap(Q), expmap(K), V) with normalize
attention fading(Q; K, V, g: []) = linear(expmap(Q), expmap(K), V) with causal, normalize, decay = g
attention fading_all(Q; K, V, g: []) = linear(common(Q), common(K), V) with causal, normalize(eps = 1), decay = g
attention plain(Q; K, V, g: []) = linear(Q, K, V) with causal, decay = g
attention masked(Q; K, V, g: [], m: []) = linear(expmap(Q), expmap(K), V) with causal, normalize, decay = g, mask = m
attention masked_both(Q; K, V, m: []) = linear(expmap(Q), expmap(K), V) with normalize, mask = m
attention soft(Q; K, V, m: []) = softmax_attention(Q, K, V) with causal, mask = m
)";
  const Spec spec = Spec::parse(text).value();
  constexpr int64_t kRows = 3000, kWidth = 4;
  for (const std::string &name : spec.attentions())
    for (const DType dtype : {DType::f32, DType::f64})
      for (const char *kind : {"calm", "jumps", "falls", "NaN"}) {
        INFO(name << (dtype == DType::f32 ? " f32 " : " f64 ") << kind);
        const Kernel kernel = compiled(spec, name, options(dtype, kWidth, 3));
        Data data = makeData(kernel, {1, 1, kRows}, dtype, 1);
        Random random(3);
        for (const std::string &input : data.names)
          for (int64_t i = 0; i < data[input].size(); ++i) {
            double x = data[input].at(i);
            if (input == "g")
              x = random.below(40) == 0 ? 0 : random.below(9) == 0 ? std::exp(-30 * x) : std::exp(0.1 * x - 0.07);
            else if (input == "m")
              x = random.below(4) != 0;
            else if (input == "K" && *kind == 'j' && random.below(50) == 0)
              x *= name.find("all") == std::string::npos ? 300 : 20;
            else if (input == "K" && *kind == 'f')
              x -= static_cast<double>(i / kWidth) * 0.7;
            else if (input != "Q" && *kind == 'N' && i / kWidth == 2017)
              x = std::nan("");
            data[input].set(i, x);
          }
        roundTo(data, dtype);
        const std::vector<double> one = run(kernel, data, 1);
        for (const int threads : {2, 5})
          CHECK(same(run(kernel, data, threads), one));
      }
}

TEST_CASE("a sequence gives the same bits alone, among others, and in any order of heads and batches",
          "[slow-on-emulator]") {
  forEveryAttention([](const Spec &spec, const std::string &name) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = compiled(spec, name, options(dtype, 8, 6));
      const Data data = makeData(kernel, {3, 4, 50}, dtype, 0.5);
      const std::vector<double> all = run(kernel, data);
      for (const bool heads : {true, false})
        for (const std::vector<int64_t> &order : {std::vector<int64_t>{2, 0, 1}, {1}, {2, 2, 1, 0, 1}}) {
          INFO((heads ? "heads " : "batches ") << order.size());
          CHECK(same(run(kernel, permuted(data, heads, order)),
                     permutedOutput(all, data, outputWidth(kernel), heads, order)));
        }
    }
  });
}

TEST_CASE("chunks of any size agree", "[slow-on-emulator]") {
  forEveryAttention([](const Spec &spec, const std::string &name) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Data data = makeData(compiled(spec, name, options(dtype, 8, 6)), {1, 2, 150}, dtype, 0.2);
      const std::vector<double> expected = run(compiled(spec, name, options(dtype, 8, 6)), data);
      for (const int64_t chunk : dtype == DType::f32 ? std::vector<int64_t>{16} : std::vector<int64_t>{5, 64}) {
        INFO("chunk " << chunk);
        CHECK(relativeError(run(compiled(spec, name, options(dtype, 8, 6, testedTarget(), chunk)), data), expected) <
              2 * tolerance(dtype, 150));
      }
    }
  });
}
