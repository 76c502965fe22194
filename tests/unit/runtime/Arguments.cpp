// Each mistake at a launch has its own message, which names the argument.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/Catch.h"
#include "tests/unit/runtime/Fake.h"

using namespace yaglom;
using namespace yaglom::fake;

namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kLength = 5;

/// A launch that is right until a test spoils one thing.
struct Call {
  Kernel kernel = linear<float>(true);
  Tensor q = numbers({kBatch, kHeads, kLength, kWidth}, 1);
  Tensor k = numbers({kBatch, kHeads, kLength, kWidth}, 2);
  Tensor v = numbers({kBatch, kHeads, kLength, kWidth}, 3);
  Tensor o{DType::f32, {kBatch, kHeads, kLength, kWidth}};
  Parameters parameters = gains(kHeads);
  std::vector<TensorRef> inputs{q.ref(), k.ref(), v.ref()};
  TensorRef output = o;
  Launch launch{.threads = 1};

  std::string error() const {
    return message([&] { kernel.forward(inputs, parameters, output, launch); });
  }
};

const Shape kRowMajor{kHeads * kLength * kWidth, kLength * kWidth, kWidth, 1};

} // namespace

TEST_CASE("a launch that is right has no error") { CHECK(Call().error() == ""); }

TEST_CASE("too few inputs are counted and named") {
  Call call;
  call.inputs.pop_back();
  CHECK(call.error() == "expected 3 inputs ('Q', 'K', 'V'), found 2");
}

TEST_CASE("a wrong width is shown beside the expected shape") {
  Call call;
  Tensor narrow = numbers({kBatch, kHeads, kLength, 2}, 1);
  call.inputs[1] = narrow.ref();
  CHECK(call.error() == "argument 'K': expected shape [2, 3, N, 4], found [2, 3, 5, 2]");
}

TEST_CASE("the first input shows its free sizes by name") {
  Call call;
  call.inputs[0] = TensorRef(static_cast<const float *>(call.q.data()), {kHeads, kLength, kWidth});
  CHECK(call.error() == "argument 'Q': expected shape [B, H, N, 4], found [3, 5, 4]");
}

TEST_CASE("a default reference has no shape") {
  Call call;
  call.inputs[2] = {};
  CHECK(call.error() == "argument 'V': expected shape [2, 3, N, 4], found []");
}

TEST_CASE("another batch than Q has is refused") {
  Call call;
  Tensor other = numbers({4, kHeads, kLength, kWidth}, 1);
  call.inputs[2] = other.ref();
  CHECK(call.error() == "argument 'V': expected shape [2, 3, N, 4], found [4, 3, 5, 4]");
}

TEST_CASE("a causal attention needs one length for Q and K") {
  Call call;
  Tensor longer = numbers({kBatch, kHeads, 6, kWidth}, 1);
  call.inputs[1] = longer.ref();
  CHECK(call.error() == "argument 'K': expected shape [2, 3, 5, 4], found [2, 3, 6, 4]");
}

TEST_CASE("without causal the length of K is its own, and V must have it") {
  Call call;
  call.kernel = linear<float>(false);
  Tensor longer = numbers({kBatch, kHeads, 6, kWidth}, 1);
  call.inputs[1] = longer.ref();
  CHECK(call.error() == "argument 'V': expected shape [2, 3, 6, 4], found [2, 3, 5, 4]");
  Tensor narrow = numbers({kBatch, kHeads, 6, 3}, 1);
  call.inputs[2] = narrow.ref();
  CHECK(call.error() == "argument 'V': expected shape [2, 3, M, 4], found [2, 3, 6, 3]");
}

TEST_CASE("an output of another length is refused") {
  Call call;
  Tensor longer(DType::f32, {kBatch, kHeads, 6, kWidth});
  call.output = longer;
  CHECK(call.error() == "argument 'O': expected shape [2, 3, 5, 4], found [2, 3, 6, 4]");
}

TEST_CASE("another element type is refused") {
  Call call;
  Tensor wide = numbers({kBatch, kHeads, kLength, kWidth}, 1, DType::f64);
  call.inputs[1] = wide.ref();
  CHECK(call.error() == "argument 'K': expected f32, found f64");
}

TEST_CASE("null data is refused, except where there is nothing to read") {
  Call call;
  call.inputs[0].data = nullptr;
  CHECK(call.error() == "argument 'Q': data is null");
  for (TensorRef *ref : {&call.inputs[0], &call.inputs[1], &call.inputs[2], &call.output})
    ref->shape[2] = 0;
  CHECK(call.error() == "");
}

TEST_CASE("an address off by a byte is refused") {
  Call call;
  call.inputs[0].data = static_cast<const char *>(call.inputs[0].data) + 1;
  CHECK(call.error() == "argument 'Q': data is not aligned to its 4-byte elements");
}

TEST_CASE("as many strides as axes are needed") {
  Call call;
  call.inputs[0].strides.pop_back();
  CHECK(call.error() == "argument 'Q': expected 4 strides, found 3");
}

TEST_CASE("a negative stride is refused, except on an axis of one element") {
  Call call;
  call.inputs[0].strides[2] = -kWidth;
  CHECK(call.error() == "argument 'Q': stride -4 of axis 2 is negative");
  for (TensorRef *ref : {&call.inputs[0], &call.inputs[1], &call.inputs[2], &call.output})
    ref->shape[2] = 1;
  CHECK(call.error() == "");
}

TEST_CASE("a negative size is refused") {
  Call call;
  call.inputs[0].shape[2] = -1;
  CHECK(call.error() == "argument 'Q': shape [2, 3, -1, 4] has a negative size");
}

TEST_CASE("more elements than 64 bits can count are refused") {
  Call call;
  call.inputs[0].shape = {int64_t{1} << 31, int64_t{1} << 31, 5, kWidth};
  call.inputs[0].strides = {0, 0, kWidth, 1};
  CHECK(call.error() == "argument 'Q': shape [2147483648, 2147483648, 5, 4] has too many elements");
}

TEST_CASE("strides that leave the address space are refused") {
  Call call;
  call.inputs[1].strides[0] = INT64_MAX / 4;
  CHECK(call.error() == "argument 'K': strides [2305843009213693951, 20, 4, 1] reach beyond the address space");
}

TEST_CASE("an output in read-only memory is refused") {
  Call call;
  call.output = call.o.ref();
  CHECK(call.error() == "argument 'O': expected writable memory, found a pointer to const");
}

TEST_CASE("an output whose elements overlap is refused") {
  Call call;
  call.output.strides = {0, kLength * kWidth, kWidth, 1};
  CHECK(call.error() == "argument 'O': elements overlap: shape [2, 3, 5, 4], strides [0, 20, 4, 1]");
  call.output.strides = {60, 20, 3, 1};
  CHECK(call.error() == "argument 'O': elements overlap: shape [2, 3, 5, 4], strides [60, 20, 3, 1]");
}

TEST_CASE("an output that overlaps an input is refused") {
  Call call;
  call.output = call.v;
  CHECK(call.error() == "argument 'O': overlaps argument 'V'");
  Tensor both(DType::f32, {kBatch * 2, kHeads, kLength, kWidth});
  float *data = static_cast<float *>(both.data());
  call.inputs[0] = TensorRef(data, {kBatch, kHeads, kLength, kWidth});
  call.output = TensorRef(data + kRowMajor[0] * kBatch - 1, {kBatch, kHeads, kLength, kWidth});
  CHECK(call.error() == "argument 'O': overlaps argument 'Q'");
  call.output = TensorRef(data + kRowMajor[0] * kBatch, {kBatch, kHeads, kLength, kWidth});
  CHECK(call.error() == "");
}

TEST_CASE("an output that overlaps a parameter is refused") {
  Call call;
  call.parameters.set("a.gain", Tensor(DType::f32, {kHeads}));
  const TensorRef gain = call.parameters["a.gain"];
  call.output.data = gain.data;
  CHECK(call.error() == "argument 'O': overlaps argument 'a.gain'");
}

TEST_CASE("a missing parameter is named") {
  Call call;
  call.parameters = {};
  CHECK(call.error() == "argument 'a.gain': missing; expected shape [3]");
}

TEST_CASE("a parameter for another number of heads is refused") {
  Call call;
  call.parameters = gains(2);
  CHECK(call.error() == "argument 'a.gain': expected shape [3], found [2]");
}

TEST_CASE("a parameter of another element type is refused") {
  Call call;
  call.parameters = gains(kHeads, DType::f64);
  CHECK(call.error() == "argument 'a.gain': expected f32, found f64");
}

TEST_CASE("parameters of other attentions are ignored") {
  Call call;
  call.parameters.set("b.gain", Tensor(DType::f64, {1}));
  CHECK(call.error() == "");
}

TEST_CASE("a negative number of threads is refused") {
  Call call;
  call.launch.threads = -1;
  CHECK(call.error() == "threads must be 0 or more, found -1");
}
