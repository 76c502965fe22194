// Widths, layouts, empty and extreme sizes, and memory around every tensor.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr int64_t kWidths[] = {1, 3, 8, 16, 20, 24, 40, 48, 64, 72, 80, 96, 100, 112, 128, 160, 192, 224, 256};
constexpr int64_t kFeatures[] = {1, 2, 7, 32, 100, 256, 266};

const char *text(DType dtype) { return dtype == DType::f32 ? " f32" : " f64"; }

/// Contractions, exponents and plain features of `F` entries in one.
const std::string kText = R"(
dim F = 4
map features(x: [d]) -> [F] {
  param W: [F, d] ~ gaussian(scale = d^(-1/2))
  return exp(W @ x) * 0.5
}
map positive(x: [d]) = elu(x) + 1
attention causal(Q; K, V) = linear(features(Q), features(K), V) with causal, normalize
attention both(Q; K, V) = linear(features(Q), features(K), V) with normalize(eps = 0.1)
attention plain(Q; K, V) = linear(positive(Q), positive(K), V) with causal, normalize
attention soft(Q; K, V) = softmax_attention(Q, K, V) with causal
)";

void compareShape(const std::string &attention, DType dtype, int64_t d, int64_t e, int64_t features, Sizes sizes) {
  INFO(attention << text(dtype) << " d = " << d << ", e = " << e << ", F = " << features << ", N = " << sizes.rows);
  CompileOptions settings = options(DType::f64, d, e, Target::reference());
  settings.dims["F"] = features;
  const Kernel reference = compiled(kText, attention, settings);
  settings.target = testedTarget();
  settings.dtype = dtype;
  const Data data = makeData(reference, sizes, dtype, 0.5);
  const std::vector<double> found = run(compiled(kText, attention, settings), data);
  CHECK(countNonFinite(found) == 0);
  CHECK(relativeError(found, run(reference, data)) < tolerance(dtype, std::max(sizes.rows, features)));
}

/// A tensor of a launch inside memory of its own, in a layout of its own; what is not the tensor is NaN.
template <typename T>
class Guarded {
public:
  /// `order` lists the axes from the slowest to the fastest; `gap` elements follow each row of the fastest.
  Guarded(const Shape &shape, const std::vector<int> &order, int64_t gap, int64_t offset = 0)
      : shape(shape), strides(shape.size()) {
    int64_t stride = 1;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      strides[static_cast<std::size_t>(*axis)] = stride;
      stride *= std::max<int64_t>(shape[static_cast<std::size_t>(*axis)], 1);
      if (axis == order.rbegin())
        stride += gap;
    }
    begin = kGuard + offset;
    memory.assign(static_cast<std::size_t>(begin + stride + kGuard), kPoison());
  }

  template <typename F>
  void forEach(F visit) {
    int64_t count = 1;
    for (const int64_t axis : shape)
      count *= axis;
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, at = begin;
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        at += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
      visit(memory[static_cast<std::size_t>(at)], i);
    }
  }

  void fill(const Tensor &tensor) {
    forEach([&](T &x, int64_t i) { x = static_cast<T>(tensor.at(i)); });
  }

  std::vector<double> values() {
    std::vector<double> result;
    forEach([&](T &x, int64_t) { result.push_back(x); });
    return result;
  }

  /// Everything outside the tensor still holds the poison, bit by bit.
  bool intact() {
    std::vector<T> rest = memory;
    std::swap(rest, memory);
    forEach([&](T &x, int64_t) { x = kPoison(); });
    std::swap(rest, memory);
    const T poison = kPoison();
    for (const T &x : rest)
      if (std::memcmp(&x, &poison, sizeof(T)) != 0)
        return false;
    return true;
  }

  TensorRef readable() const { return TensorRef(static_cast<const T *>(memory.data() + begin), shape, strides); }
  TensorRef writable() { return TensorRef(memory.data() + begin, shape, strides); }

private:
  static constexpr int64_t kGuard = 300;
  static T kPoison() { return std::numeric_limits<T>::quiet_NaN(); }
  Shape shape, strides;
  int64_t begin = 0;
  std::vector<T> memory;
};

struct Layout {
  const char *name;
  std::vector<int> order; ///< axes B, H, N, w from the slowest to the fastest
  int64_t gap, offset;
};

const std::vector<Layout> kLayouts = {
    {"[B, H, N, w]", {0, 1, 2, 3}, 0, 0},     {"[B, N, H, w]", {0, 2, 1, 3}, 0, 0},
    {"rows with a gap", {0, 1, 2, 3}, 13, 0}, {"[N, B, H, w], off by one", {2, 0, 1, 3}, 5, 1},
    {"[B, H, w, N]", {0, 1, 3, 2}, 0, 0},     {"[w, N, H, B] with a gap", {3, 2, 1, 0}, 3, 1},
};

template <typename T>
void guardedRun(const Kernel &kernel, const Data &data, const Layout &in, const Layout &out,
                const std::vector<double> &expected) {
  INFO("inputs " << in.name << ", output " << out.name);
  std::vector<Guarded<T>> inputs;
  std::vector<TensorRef> refs;
  for (const Tensor &tensor : data.inputs) {
    std::vector<int> order = in.order;
    if (tensor.shape().size() == 3)
      std::erase(order, 3);
    inputs.emplace_back(tensor.shape(), order, in.gap, in.offset);
    inputs.back().fill(tensor);
  }
  for (Guarded<T> &input : inputs)
    refs.push_back(input.readable());
  Parameters parameters;
  for (const Parameters::Entry &entry : data.parameters)
    parameters.set(entry.name, toType(entry.tensor, kernel.dtype()));
  Guarded<T> output({data.sizes.batch, data.sizes.heads, data.sizes.rows, outputWidth(kernel)}, out.order, out.gap,
                    out.offset);
  kernel.forward(refs, parameters, output.writable(), {1});
  CHECK(same(output.values(), expected));
  CHECK(output.intact());
  for (Guarded<T> &input : inputs)
    CHECK(input.intact());
}

} // namespace

TEST_CASE("every width of queries, keys and values equals the reference", "[slow-on-emulator]") {
  const auto count = static_cast<int64_t>(std::size(kWidths));
  for (int64_t i = 0; i < count; ++i) {
    // Pairs: each width once as d and once as e, never both alike.
    const int64_t d = kWidths[i], e = kWidths[(i + 7) % count];
    compareShape("causal", i % 2 ? DType::f32 : DType::f64, d, e, 8 + i, {1, 2, 37});
    compareShape("plain", i % 2 ? DType::f64 : DType::f32, d, e, 4, {1, 1, 50});
    if (i % 3 == 0)
      compareShape("soft", i % 2 ? DType::f64 : DType::f32, d, e, 4, {1, 1, 70});
  }
}

TEST_CASE("every number of features equals the reference", "[slow-on-emulator]") {
  for (std::size_t i = 0; i < std::size(kFeatures); ++i)
    for (const char *attention : {"causal", "both"})
      for (const DType dtype : {DType::f32, DType::f64})
        compareShape(attention, dtype, kWidths[i + 2], kWidths[i + 5], kFeatures[i], {1, 1, 67});
}

TEST_CASE("no batch, no head and no token give empty outputs", "[slow-on-emulator]") {
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions())
      for (const Sizes sizes : {Sizes{0, 2, 5}, Sizes{2, 0, 5}, Sizes{2, 2, 0}, Sizes{0, 0, 0}}) {
        INFO(name);
        const Kernel kernel = compiled(spec, name, options(DType::f32, 6, 4));
        CHECK(run(kernel, makeData(kernel, sizes, DType::f32, 1)).empty());
      }
  }
}

TEST_CASE("strided layouts give the bits of dense ones, and nothing outside a tensor is read or written",
          "[slow-on-emulator]") {
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions())
      for (const DType dtype : {DType::f32, DType::f64}) {
        INFO(name << text(dtype));
        const Kernel kernel = compiled(spec, name, options(dtype, 6, 4));
        for (const int64_t rows : fewerOnEmulator<int64_t>({1, 45}, {33})) {
          const Data data = makeData(kernel, {2, 3, rows}, dtype, 0.5);
          const std::vector<double> expected = run(kernel, data);
          CHECK(countNonFinite(expected) == 0);
          for (std::size_t i = 0; i < kLayouts.size(); ++i)
            for (std::size_t j : {i, std::size_t(0), std::size_t(2)}) {
              if (dtype == DType::f32)
                guardedRun<float>(kernel, data, kLayouts[i], kLayouts[j], expected);
              else
                guardedRun<double>(kernel, data, kLayouts[i], kLayouts[j], expected);
            }
        }
      }
  }
}

TEST_CASE("widths with masked tails read and write nothing outside", "[slow-on-emulator]") {
  for (const auto &[d, e] : {std::pair<int64_t, int64_t>{1, 1}, {3, 20}, {17, 5}, {64, 72}, {100, 33}})
    for (const char *attention : {"causal", "both", "plain", "soft"}) {
      INFO(attention << " d = " << d << ", e = " << e);
      const Kernel kernel = compiled(kText, attention, options(DType::f32, d, e));
      const Data data = makeData(kernel, {2, 2, 33}, DType::f32, 0.5);
      const std::vector<double> expected = run(kernel, data);
      CHECK(countNonFinite(expected) == 0);
      for (const Layout &layout : kLayouts)
        guardedRun<float>(kernel, data, layout, layout, expected);
    }
}

TEST_CASE("slices of a packed QKV and a batch of stride 0 give the bits of dense inputs") {
  constexpr int64_t kBatch = 2, kHeads = 3, kRows = 40, kWidth = 8;
  const Kernel kernel = compiled(kText, "causal", options(DType::f32, kWidth, kWidth));
  const Data data = makeData(kernel, {kBatch, kHeads, kRows}, DType::f32, 0.5);
  Parameters parameters;
  for (const Parameters::Entry &entry : data.parameters)
    parameters.set(entry.name, toType(entry.tensor, DType::f32));
  // [B, N, 3, H, w], as one projection makes it.
  std::vector<float> packed(kBatch * kRows * 3 * kHeads * kWidth);
  const Shape shape{kBatch, kHeads, kRows, kWidth};
  const Shape strides{kRows * 3 * kHeads * kWidth, kWidth, 3 * kHeads * kWidth, 1};
  std::vector<TensorRef> refs;
  for (int64_t part = 0; part < 3; ++part) {
    float *const base = packed.data() + part * kHeads * kWidth;
    for (int64_t i = 0; i < data.inputs[static_cast<std::size_t>(part)].size(); ++i) {
      const int64_t w = i % kWidth, n = i / kWidth % kRows, h = i / kWidth / kRows % kHeads,
                    b = i / kWidth / kRows / kHeads;
      base[b * strides[0] + h * strides[1] + n * strides[2] + w] =
          static_cast<float>(data.inputs[static_cast<std::size_t>(part)].at(i));
    }
    refs.emplace_back(static_cast<const float *>(base), shape, strides);
  }
  Tensor output(DType::f32, shape);
  kernel.forward(refs, parameters, output, {1});
  const std::vector<double> expected = run(kernel, data);
  bool equal = true;
  for (int64_t i = 0; i < output.size(); ++i)
    equal &= same(output.at(i), expected[static_cast<std::size_t>(i)]);
  CHECK(equal);

  // Every batch reads the first one's keys and values.
  for (TensorRef &ref : refs)
    ref.strides[0] = 0;
  kernel.forward(refs, parameters, output, {1});
  for (int64_t i = 0; i < output.size(); ++i)
    equal &= same(output.at(i), expected[static_cast<std::size_t>(i % (output.size() / kBatch))]);
  CHECK(equal);
}

TEST_CASE("70 000 tokens of one head equal a recurrence", "[slow-on-emulator]") {
  constexpr int64_t kRows = 70'000, kD = 4, kE = 3;
  const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/linear_transformer.phi").value();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Kernel kernel = compiled(spec, "linear_transformer", options(dtype, kD, kE));
    Data data = makeData(kernel, {1, 1, kRows}, dtype, 0.35);
    const std::vector<double> found = run(kernel, data);
    const auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
    double S[kD][kE] = {}, z[kD] = {};
    std::vector<double> expected;
    for (int64_t t = 0; t < kRows; ++t) {
      double O[kE] = {}, D = 0;
      for (int64_t f = 0; f < kD; ++f) {
        const double k = phi(data["K"].at(t * kD + f)), q = phi(data["Q"].at(t * kD + f));
        z[f] += k, D += q * z[f];
        for (int64_t c = 0; c < kE; ++c)
          S[f][c] += k * data["V"].at(t * kE + c), O[c] += q * S[f][c];
      }
      for (const double o : O)
        expected.push_back(o / D);
    }
    CHECK(relativeError(found, expected) < tolerance(dtype, kRows));
  }
}

TEST_CASE("many heads of one token equal the value of their token", "[slow-on-emulator]") {
  const int64_t many = fewerOnEmulator(70'000, 2100);
  const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/linear_transformer.phi").value();
  const Kernel kernel = compiled(spec, "linear_transformer", options(DType::f32, 4, 3));
  for (const Sizes sizes : {Sizes{many, 1, 1}, Sizes{1, many, 1}, Sizes{many / 70, 70, 1}}) {
    Data data = makeData(kernel, sizes, DType::f32, 0.35);
    std::vector<double> values;
    for (int64_t i = 0; i < data["V"].size(); ++i)
      values.push_back(data["V"].at(i));
    CHECK(relativeError(run(kernel, data), values) < tolerance(DType::f32, 1));
  }
}
