// Tensors at the boundary: references with strides, owned aligned tensors, and named collections of them.
// SPDX-License-Identifier: Apache-2.0
#include "support/Elements.h"

#include <cassert>
#include <cstring>
#include <limits>
#include <new>

namespace yaglom {
namespace {

constexpr std::align_val_t kAlignment{64};

Shape rowMajorStrides(const Shape &shape) {
  Shape strides(shape.size());
  uint64_t step = 1; // unsigned: the sizes are the caller's and not yet checked
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(shape[axis]);
  }
  return strides;
}

TensorRef makeRef(const void *data, DType dtype, bool writable, Shape shape, Shape strides) {
  TensorRef ref;
  ref.data = data;
  ref.dtype = dtype;
  ref.writable = writable;
  ref.strides = strides.empty() ? rowMajorStrides(shape) : std::move(strides);
  ref.shape = std::move(shape);
  return ref;
}

std::string toText(const Shape &shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    text += (axis ? ", " : "") + std::to_string(shape[axis]);
  return text + "]";
}

/// Number of elements; an Error when a size is negative or the bytes do not fit the address space.
int64_t countElements(const Shape &shape) {
  // A zero anywhere makes the tensor empty, whatever the product of the other sizes.
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0)
      throw Error("tensor of shape " + toText(shape) + ": a size is negative");
    empty |= size == 0;
  }
  if (empty)
    return 0;
  int64_t count = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count) || count > std::numeric_limits<int64_t>::max() / 16)
      throw Error("tensor of shape " + toText(shape) + ": too many elements");
  return count;
}

} // namespace

const char *toText(DType type) {
  constexpr const char *kNames[] = {"f32", "f64", "f16", "bf16"};
  return kNames[static_cast<int>(type)];
}

std::size_t sizeOf(DType type) { return type == DType::f64 ? 8 : type == DType::f32 ? 4 : 2; }

DType parameterType(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

TensorRef::TensorRef(float *data, Shape shape, Shape strides)
    : TensorRef(makeRef(data, DType::f32, true, std::move(shape), std::move(strides))) {}
TensorRef::TensorRef(const float *data, Shape shape, Shape strides)
    : TensorRef(makeRef(data, DType::f32, false, std::move(shape), std::move(strides))) {}
TensorRef::TensorRef(double *data, Shape shape, Shape strides)
    : TensorRef(makeRef(data, DType::f64, true, std::move(shape), std::move(strides))) {}
TensorRef::TensorRef(const double *data, Shape shape, Shape strides)
    : TensorRef(makeRef(data, DType::f64, false, std::move(shape), std::move(strides))) {}

TensorRef::TensorRef(void *data, DType dtype, Shape shape, Shape strides)
    : TensorRef(makeRef(data, dtype, true, std::move(shape), std::move(strides))) {}
TensorRef::TensorRef(const void *data, DType dtype, Shape shape, Shape strides)
    : TensorRef(makeRef(data, dtype, false, std::move(shape), std::move(strides))) {}

TensorRef TensorRef::onCuda(int ordinal) const {
  TensorRef there = *this;
  there.device = ordinal;
  return there;
}

Tensor::Tensor(DType dtype, Shape shape) : type(dtype), dims(std::move(shape)) {
  const std::size_t bytes = static_cast<std::size_t>(countElements(dims)) * sizeOf(type);
  if (bytes == 0)
    return;
  memory = ::operator new(bytes, kAlignment);
  std::memset(memory, 0, bytes);
}

Tensor::Tensor(const Tensor &other) : Tensor(other.type, other.memory ? other.dims : Shape{0}) {
  dims = other.dims;
  if (memory)
    std::memcpy(memory, other.memory, static_cast<std::size_t>(size()) * sizeOf(type));
}

Tensor::Tensor(Tensor &&other) noexcept
    : type(other.type), dims(std::move(other.dims)), memory(std::exchange(other.memory, nullptr)) {
  other.dims = {0};
}

Tensor &Tensor::operator=(Tensor other) noexcept {
  std::swap(type, other.type);
  std::swap(dims, other.dims);
  std::swap(memory, other.memory);
  return *this;
}

Tensor::~Tensor() { ::operator delete(memory, kAlignment); }

int64_t Tensor::size() const { return memory ? countElements(dims) : 0; }

double Tensor::at(int64_t index) const {
  assert(index >= 0 && index < size() && "element index out of range");
  return loadElement(type, static_cast<const char *>(memory) + static_cast<std::size_t>(index) * sizeOf(type));
}

void Tensor::set(int64_t index, double value) {
  assert(index >= 0 && index < size() && "element index out of range");
  storeElement(type, static_cast<char *>(memory) + static_cast<std::size_t>(index) * sizeOf(type), value);
}

Tensor::operator TensorRef() { return makeRef(memory, type, true, dims, {}); }
TensorRef Tensor::ref() const { return makeRef(memory, type, false, dims, {}); }

Tensor *Parameters::find(std::string_view name) {
  for (Entry &entry : entries)
    if (entry.name == name)
      return &entry.tensor;
  return nullptr;
}

const Tensor *Parameters::find(std::string_view name) const { return const_cast<Parameters *>(this)->find(name); }

Tensor &Parameters::operator[](std::string_view name) {
  if (Tensor *tensor = find(name))
    return *tensor;
  std::string known;
  for (const Entry &entry : entries)
    known += (known.empty() ? "'" : ", '") + entry.name + "'";
  throw Error("no tensor '" + std::string(name) + "'; there " + (known.empty() ? "are none" : "is " + known));
}

const Tensor &Parameters::operator[](std::string_view name) const { return const_cast<Parameters &>(*this)[name]; }

void Parameters::set(std::string name, Tensor tensor) {
  if (Tensor *present = find(name))
    *present = std::move(tensor);
  else
    entries.push_back({std::move(name), std::move(tensor)});
}

} // namespace yaglom
