// Tensors to and from DLPack: layouts, types, devices, and who calls the deleter.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/dlpack.h"
#include "tests/unit/Catch.h"

using namespace yaglom;
using namespace yaglom::dlpack;

namespace {

float numbers[24];
int64_t shape[] = {2, 3, 4};
int64_t strides[] = {4, 8, 1};

DLTensor tensorOf(DLDataType type = {kDLFloat, 32, 1}, DLDevice device = {kDLCPU, 0}) {
  return {numbers, device, 3, type, shape, nullptr, 0};
}

std::string said(const DLTensor &tensor) {
  const Result<TensorRef> ref = toRef(tensor);
  return ref ? "" : ref.error().what();
}

int deleted = 0;

} // namespace

TEST_CASE("the structs have the layout of dlpack.h") {
  static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4);
  static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20);
  static_assert(offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, byte_offset) == 40);
  static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, deleter) == 56);
  static_assert(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
  SUCCEED();
}

TEST_CASE("strides that are null are row-major, others are taken as they are") {
  CHECK(toRef(tensorOf())->strides == Shape{12, 4, 1});
  DLTensor tensor = tensorOf();
  tensor.strides = strides;
  CHECK(toRef(tensor)->strides == Shape{4, 8, 1});
  CHECK(toRef(tensor)->shape == Shape{2, 3, 4});
  CHECK(toRef(tensor)->data == numbers);
}

TEST_CASE("the byte offset is added to the address") {
  DLTensor tensor = tensorOf();
  tensor.byte_offset = 16;
  CHECK(toRef(tensor)->data == numbers + 4);
  tensor.data = nullptr;
  CHECK(toRef(tensor)->data == nullptr);
}

TEST_CASE("element types are found by code and bits") {
  CHECK(toRef(tensorOf({kDLFloat, 32, 1}))->dtype == DType::f32);
  CHECK(toRef(tensorOf({kDLFloat, 64, 1}))->dtype == DType::f64);
  CHECK(toRef(tensorOf({kDLFloat, 16, 1}))->dtype == DType::f16);
  CHECK(toRef(tensorOf({4, 16, 1}))->dtype == DType::bf16);
  CHECK(said(tensorOf({kDLInt, 32, 1})) ==
        "DLPack: expected elements of f32, f64, f16 or bf16, found type code 0, 32 bits, 1 lanes");
  CHECK(said(tensorOf({kDLFloat, 32, 4})) ==
        "DLPack: expected elements of f32, f64, f16 or bf16, found type code 2, 32 bits, 4 lanes");
}

TEST_CASE("device types and ordinals are honoured") {
  CHECK(toRef(tensorOf())->device == TensorRef::kHost);
  CHECK(toRef(tensorOf({kDLFloat, 32, 1}, {kDLCUDA, 3}))->device == 3);
  CHECK(toRef(tensorOf({kDLFloat, 32, 1}, {kDLCUDAHost, 0}))->device == TensorRef::kHost);
  CHECK(toRef(tensorOf({kDLFloat, 32, 1}, {kDLCUDAManaged, 1}))->device == 1);
  CHECK(said(tensorOf({kDLFloat, 32, 1}, {10, 0})) ==
        "DLPack: expected memory of a processor or of a CUDA device, found device type 10");
}

TEST_CASE("a tensor without axes is one number, and one without a shape is refused") {
  DLTensor tensor = tensorOf();
  tensor.ndim = 0;
  tensor.shape = nullptr;
  CHECK(toRef(tensor)->shape.empty());
  tensor.ndim = 2;
  CHECK(said(tensor) == "DLPack: a tensor of 2 axes has no shape");
}

TEST_CASE("an imported tensor calls its deleter once, at the end") {
  deleted = 0;
  DLManagedTensor managed{tensorOf(), nullptr, [](DLManagedTensor *) { ++deleted; }};
  {
    Result<Imported> imported = Imported::take(&managed);
    REQUIRE(imported);
    CHECK(imported->ref().writable);
    const Imported moved = std::move(*imported);
    CHECK(moved.ref().data == numbers);
    CHECK(deleted == 0);
  }
  CHECK(deleted == 1);
}

TEST_CASE("a tensor that cannot be imported is deleted at once, and one without a deleter never") {
  deleted = 0;
  DLManagedTensor managed{tensorOf({kDLInt, 8, 1}), nullptr, [](DLManagedTensor *) { ++deleted; }};
  CHECK(!Imported::take(&managed));
  CHECK(deleted == 1);
  DLManagedTensor plain{tensorOf(), nullptr, nullptr};
  CHECK(Imported::take(&plain));
  CHECK(std::string(Imported::take(static_cast<DLManagedTensor *>(nullptr)).error().what()) ==
        "DLPack: there is no tensor (null)");
}

TEST_CASE("version 1 says what is read-only, and other major versions are refused") {
  deleted = 0;
  DLManagedTensorVersioned managed{
      {1, 1}, nullptr, [](DLManagedTensorVersioned *) { ++deleted; }, kReadOnly, tensorOf()};
  CHECK(!Imported::take(&managed)->ref().writable);
  managed.version = {2, 0};
  CHECK(std::string(Imported::take(&managed).error().what()) == "DLPack: expected version 1, found 2.0");
  CHECK(deleted == 2);
}

TEST_CASE("what is exported comes back the same, and keeps its owner until it is deleted") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const int device : {TensorRef::kHost, 0, 2}) {
      const auto owner = std::make_shared<int>(7);
      TensorRef ref(static_cast<void *>(numbers), dtype, {2, 3}, {1, 2});
      ref.device = device;
      DLManagedTensor *managed = fromRef(ref, owner);
      CHECK(owner.use_count() == 2);
      {
        const Result<Imported> back = Imported::take(managed);
        REQUIRE(back);
        CHECK(back->ref().data == ref.data);
        CHECK(back->ref().dtype == dtype);
        CHECK(back->ref().shape == ref.shape);
        CHECK(back->ref().strides == ref.strides);
        CHECK(back->ref().device == device);
      }
      CHECK(owner.use_count() == 1);
    }
}

TEST_CASE("a read-only reference is exported as one") {
  const TensorRef ref(static_cast<const float *>(numbers), {4});
  CHECK(!Imported::take(fromRefVersioned(ref))->ref().writable);
  CHECK(Imported::take(fromRefVersioned(TensorRef(numbers, {4})))->ref().writable);
}
