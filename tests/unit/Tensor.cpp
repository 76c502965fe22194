// Tensors at the boundary: strides, ownership, named collections, and shapes that cannot be.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/tensor.h"

#include "tests/unit/Catch.h"

#include <cstdint>

using namespace yaglom;

TEST_CASE("a reference without strides is row-major") {
  float data[24] = {};
  CHECK(TensorRef(data, {2, 3, 4}).strides == Shape{12, 4, 1});
  CHECK(TensorRef(data, {}).strides.empty());
  CHECK(TensorRef(data, {2, 3}, {1, 2}).strides == Shape{1, 2});
}

TEST_CASE("a reference knows its type and whether it may be written") {
  double data[1] = {};
  const float constant[1] = {};
  CHECK(TensorRef(data, {1}).writable);
  CHECK(TensorRef(data, {1}).dtype == DType::f64);
  CHECK_FALSE(TensorRef(constant, {1}).writable);
}

TEST_CASE("an owned tensor starts at zero, is aligned, and copies its values") {
  Tensor tensor(DType::f32, {3, 5});
  CHECK(tensor.size() == 15);
  CHECK(reinterpret_cast<uintptr_t>(tensor.data()) % 64 == 0);
  CHECK(tensor.at(14) == 0);
  tensor.set(3, 0.1);
  Tensor copy = tensor;
  tensor.set(3, 7);
  CHECK(copy.at(3) == static_cast<double>(0.1f));
  copy = std::move(tensor);
  CHECK(copy.at(3) == 7);
}

TEST_CASE("scalars have one element and empty tensors none") {
  CHECK(Tensor(DType::f64, {}).size() == 1);
  CHECK(Tensor(DType::f64, {0, 3}).size() == 0);
  CHECK(Tensor().size() == 0);
  CHECK(Tensor(Tensor(DType::f64, {0, 3})).shape() == Shape{0, 3});
  CHECK(Tensor(Tensor()).size() == 0);
}

TEST_CASE("a shape that cannot be is an error") {
  CHECK_THROWS_WITH(Tensor(DType::f32, {2, -1}), "tensor of shape [2, -1]: a size is negative");
  CHECK_THROWS_WITH(Tensor(DType::f32, {int64_t{1} << 40, int64_t{1} << 40}),
                    "tensor of shape [1099511627776, 1099511627776]: too many elements");
}

TEST_CASE("parameters keep their order and name what is missing") {
  Parameters parameters;
  CHECK_THROWS_WITH(parameters["f.W"], "no tensor 'f.W'; there are none");
  parameters.set("f.W", Tensor(DType::f32, {1}));
  parameters.set("f.b", Tensor(DType::f32, {2}));
  parameters.set("f.W", Tensor(DType::f32, {3}));
  CHECK(parameters.size() == 2);
  CHECK(parameters.begin()->name == "f.W");
  CHECK(parameters["f.W"].size() == 3);
  CHECK(parameters.find("f.c") == nullptr);
  CHECK_THROWS_WITH(parameters["f.c"], "no tensor 'f.c'; there is 'f.W', 'f.b'");
}

TEST_CASE("an error carries its text") {
  Result<int> bad = Error("no");
  CHECK_FALSE(bad);
  CHECK_THROWS_WITH(bad.value(), "no");
  CHECK(Result<int>(3).value() == 3);
}
