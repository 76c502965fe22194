// Strides of every kind give what dense tensors give, and nothing outside the output is written.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/Catch.h"
#include "tests/unit/runtime/Fake.h"

#include <sys/mman.h>

#include <cmath>

using namespace yaglom;
using namespace yaglom::fake;

namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kLength = 5;
const Shape kShape{kBatch, kHeads, kLength, kWidth};

struct Dense {
  Tensor q = numbers(kShape, 1), k = numbers(kShape, 2), v = numbers(kShape, 3);
  Tensor o{DType::f32, kShape};
  Parameters parameters = gains(kHeads);

  Dense() { linear<float>(true).forward({q.ref(), k.ref(), v.ref()}, parameters, o, {.threads = 1}); }
};

/// A buffer of NaN with one tensor placed in it by strides.
class Placed {
public:
  Placed(const Shape &strides, int64_t offset, int64_t size)
      : buffer(static_cast<std::size_t>(size), std::nanf("")), ref(buffer.data() + offset, kShape, strides) {}

  void fill(const Tensor &dense) {
    forEach([&](float &there, int64_t index) { there = static_cast<float>(dense.at(index)); });
  }
  Tensor toDense() {
    Tensor dense(DType::f32, kShape);
    forEach([&](float &there, int64_t index) { dense.set(index, there); });
    return dense;
  }
  /// Entries that are still NaN.
  std::ptrdiff_t untouched() const {
    return std::count_if(buffer.begin(), buffer.end(), [](float x) { return std::isnan(x); });
  }

  std::vector<float> buffer;
  TensorRef ref;

private:
  template <typename F>
  void forEach(F f) {
    float *data = const_cast<float *>(static_cast<const float *>(ref.data));
    int64_t index = 0;
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < kLength; ++i)
          for (int64_t c = 0; c < kWidth; ++c)
            f(data[b * ref.strides[0] + h * ref.strides[1] + i * ref.strides[2] + c * ref.strides[3]], index++);
  }
};

/// The dense result again with all four tensors laid out by `strides`, in buffers of NaN.
void checkLayout(const Shape &strides) {
  Dense dense;
  const int64_t margin = 16;
  const int64_t extent = 1 + (kBatch - 1) * strides[0] + (kHeads - 1) * strides[1] + (kLength - 1) * strides[2] +
                         (kWidth - 1) * strides[3];
  Placed q(strides, margin, extent + 2 * margin), k = q, v = q, o = q;
  for (Placed *placed : {&k, &v, &o})
    placed->ref.data = placed->buffer.data() + margin;
  q.fill(dense.q);
  k.fill(dense.k);
  v.fill(dense.v);
  linear<float>(true).forward({q.ref, k.ref, v.ref}, dense.parameters, o.ref, {.threads = 2});
  CHECK(sameBits(o.toDense(), dense.o));
  CHECK(o.untouched() == extent + 2 * margin - dense.o.size());
}

} // namespace

TEST_CASE("head-major rows") { checkLayout({kHeads * kLength * kWidth, kLength * kWidth, kWidth, 1}); }
TEST_CASE("token-major rows") { checkLayout({kLength * kHeads * kWidth, kWidth, kHeads * kWidth, 1}); }
TEST_CASE("slices of a wider packed buffer") { checkLayout({kLength * 40, kWidth, 40, 1}); }
TEST_CASE("rows with a gap between them") { checkLayout({kHeads * kLength * 7, kLength * 7, 7, 1}); }
TEST_CASE("transposed rows") { checkLayout({kHeads * kLength * kWidth, kLength * kWidth, 1, kLength}); }
TEST_CASE("every second entry of a row") { checkLayout({kHeads * kLength * 8, kLength * 8, 8, 2}); }
TEST_CASE("batch inside of everything") { checkLayout({1, kBatch * 20, kBatch * 4, kBatch}); }

TEST_CASE("Q, K, V and O may be slices of one buffer") {
  Dense dense;
  const int64_t row = 4 * kHeads * kWidth;
  Placed all({kLength * row, kWidth, row, 1}, 0, kBatch * kLength * row);
  std::vector<TensorRef> refs;
  for (const Tensor *tensor : {&dense.q, &dense.k, &dense.v, &dense.o}) {
    all.ref.data = all.buffer.data() + static_cast<int64_t>(refs.size()) * kHeads * kWidth;
    if (tensor != &dense.o)
      all.fill(*tensor);
    refs.push_back(all.ref);
  }
  linear<float>(true).forward({refs[0], refs[1], refs[2]}, dense.parameters, refs[3], {.threads = 2});
  CHECK(sameBits(all.toDense(), dense.o));
}

TEST_CASE("one key row for all tokens by a stride of 0") {
  Dense dense;
  Tensor one = numbers({kBatch, kHeads, 1, kWidth}, 4);
  Tensor copies(DType::f32, kShape);
  for (int64_t i = 0; i < copies.size(); ++i)
    copies.set(i, one.at(i / (kLength * kWidth) * kWidth + i % kWidth));
  Tensor expected(DType::f32, kShape), found(DType::f32, kShape);
  const Kernel kernel = linear<float>(true);
  kernel.forward({dense.q.ref(), copies.ref(), dense.v.ref()}, dense.parameters, expected);
  const TensorRef expanded(static_cast<const float *>(one.data()), kShape, {kHeads * kWidth, kWidth, 0, 1});
  kernel.forward({dense.q.ref(), expanded, dense.v.ref()}, dense.parameters, found);
  CHECK(sameBits(found, expected));
}

TEST_CASE("offsets beyond 2^31 elements") {
  // A sparse mapping: only the pages that are touched exist.
  const int64_t far = (int64_t{1} << 31) + 7 * kWidth;
  const std::size_t bytes = static_cast<std::size_t>(2 * far) * sizeof(float);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    WARN("no address space for this test");
    return;
  }
  float *data = static_cast<float *>(memory);
  const Shape shape{2, 1, 1, kWidth};
  Tensor k = numbers(shape, 2), v = numbers(shape, 3), expected(DType::f32, shape);
  Tensor q = numbers(shape, 1);
  for (int64_t i = 0; i < 2 * kWidth; ++i)
    data[i / kWidth * far + i % kWidth] = static_cast<float>(q.at(i));
  const Kernel kernel = linear<float>(true);
  kernel.forward({q.ref(), k.ref(), v.ref()}, gains(1), expected);
  const TensorRef output(data + kWidth, shape, {far, 1, 1, 1});
  kernel.forward({TensorRef(static_cast<const float *>(data), shape, {far, 1, 1, 1}), k.ref(), v.ref()}, gains(1),
                 output);
  for (int64_t i = 0; i < 2 * kWidth; ++i)
    CHECK(data[kWidth + i / kWidth * far + i % kWidth] == expected.at(i));
  munmap(memory, bytes);
}

TEST_CASE("seventy thousand items of one token") {
  const Shape shape{700, 100, 1, kWidth};
  Tensor q = numbers(shape, 1), k = numbers(shape, 2), v = numbers(shape, 3), o(DType::f32, shape);
  linear<float>(true).forward({q.ref(), k.ref(), v.ref()}, gains(100), o);
  int64_t wrong = 0;
  for (int64_t row = 0; row < 70000; ++row) {
    double weight = 0;
    for (int64_t c = 0; c < kWidth; ++c)
      weight += q.at(row * kWidth + c) * k.at(row * kWidth + c);
    for (int64_t c = 0; c < kWidth; ++c)
      wrong += o.at(row * kWidth + c) != static_cast<double>(row % 100 + 1) * weight * v.at(row * kWidth + c);
  }
  CHECK(wrong == 0);
}

TEST_CASE("nothing happens where batch, heads or length is 0") {
  for (int axis = 0; axis < 3; ++axis) {
    Shape shape = kShape;
    shape[axis] = 0;
    Tensor q(DType::f32, shape), k(DType::f32, shape), v(DType::f32, shape), o(DType::f32, shape);
    CHECK_NOTHROW(linear<float>(true).forward({q.ref(), k.ref(), v.ref()}, gains(shape[1]), o));
  }
}

TEST_CASE("queries without any key give zeros") {
  const Shape none{kBatch, kHeads, 0, kWidth};
  Tensor q = numbers(kShape, 1), k(DType::f32, none), v(DType::f32, none), o = numbers(kShape, 2);
  linear<float>(false).forward({q.ref(), k.ref(), v.ref()}, gains(kHeads), o);
  CHECK(sameBits(o, Tensor(DType::f32, kShape)));
}

TEST_CASE("float64 rows are packed too") {
  Tensor q = numbers(kShape, 1, DType::f64), k = numbers(kShape, 2, DType::f64), v = numbers(kShape, 3, DType::f64);
  Tensor expected(DType::f64, kShape), transposed(DType::f64, kShape), found(DType::f64, kShape);
  const Kernel kernel = linear<double>(true);
  kernel.forward({q.ref(), k.ref(), v.ref()}, gains(kHeads, DType::f64), expected);
  for (int64_t i = 0; i < k.size(); ++i) {
    const int64_t item = i / (kLength * kWidth), row = i / kWidth % kLength, column = i % kWidth;
    transposed.set(item * kLength * kWidth + column * kLength + row, k.at(i));
  }
  const TensorRef view(static_cast<const double *>(transposed.data()), kShape,
                       {kHeads * kLength * kWidth, kLength * kWidth, 1, kLength});
  kernel.forward({q.ref(), view, v.ref()}, gains(kHeads, DType::f64), found);
  CHECK(sameBits(found, expected));
}
