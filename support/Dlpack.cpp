// Tensors to and from DLPack.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/dlpack.h"

namespace yaglom::dlpack {
namespace {

Result<DType> elementType(const DLDataType &type) {
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 32)
    return DType::f32;
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 64)
    return DType::f64;
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 16)
    return DType::f16;
  if (type.lanes == 1 && type.code == kDLBfloat && type.bits == 16)
    return DType::bf16;
  return Error("DLPack: expected elements of f32, f64, f16 or bf16, found type code " + std::to_string(type.code) +
               ", " + std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) + " lanes");
}

Result<int> placeOf(const DLDevice &device) {
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost)
    return TensorRef::kHost;
  if (device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged)
    return static_cast<int>(device.device_id);
  return Error("DLPack: expected memory of a processor or of a CUDA device, found device type " +
               std::to_string(device.device_type));
}

DLDataType dataType(DType type) {
  return {static_cast<uint8_t>(type == DType::bf16 ? kDLBfloat : kDLFloat), static_cast<uint8_t>(8 * sizeOf(type)), 1};
}

/// What an exported tensor points to.
template <typename Managed>
struct Exported {
  Managed managed{};
  Shape shape, strides;
  std::shared_ptr<void> owner;
};

template <typename Managed>
Managed *makeExported(const TensorRef &tensor, std::shared_ptr<void> owner) {
  auto *exported = new Exported<Managed>{{}, tensor.shape, tensor.strides, std::move(owner)};
  DLTensor &out = exported->managed.dl_tensor;
  out.data = const_cast<void *>(tensor.data);
  const bool onHost = tensor.device == TensorRef::kHost;
  out.device = {onHost ? kDLCPU : kDLCUDA, onHost ? 0 : tensor.device};
  out.ndim = static_cast<int32_t>(tensor.shape.size());
  out.dtype = dataType(tensor.dtype);
  out.shape = exported->shape.data();
  out.strides = exported->strides.data();
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = [](Managed *self) { delete static_cast<Exported<Managed> *>(self->manager_ctx); };
  return &exported->managed;
}

/// Calls the deleter when the last reference goes.
template <typename Managed>
std::shared_ptr<void> own(Managed *tensor) {
  return {tensor, [](void *owned) {
            auto *managed = static_cast<Managed *>(owned);
            if (managed->deleter)
              managed->deleter(managed);
          }};
}

} // namespace

Result<TensorRef> toRef(const DLTensor &tensor, bool writable) {
  const Result<DType> dtype = elementType(tensor.dtype);
  if (!dtype)
    return dtype.error();
  const Result<int> place = placeOf(tensor.device);
  if (!place)
    return place.error();
  if (tensor.ndim < 0 || (tensor.ndim > 0 && !tensor.shape))
    return Error("DLPack: a tensor of " + std::to_string(tensor.ndim) + " axes has no shape");
  const Shape shape(tensor.shape, tensor.shape + tensor.ndim);
  const Shape strides = tensor.strides ? Shape(tensor.strides, tensor.strides + tensor.ndim) : Shape();
  char *data = tensor.data ? static_cast<char *>(tensor.data) + tensor.byte_offset : nullptr;
  TensorRef ref(static_cast<void *>(data), *dtype, shape, strides);
  ref.writable = writable;
  ref.device = *place;
  return ref;
}

Result<Imported> Imported::take(DLManagedTensor *tensor) {
  if (!tensor)
    return Error("DLPack: there is no tensor (null)");
  std::shared_ptr<void> owner = own(tensor);
  Result<TensorRef> ref = toRef(tensor->dl_tensor);
  if (!ref)
    return ref.error();
  return Imported(std::move(*ref), std::move(owner));
}

Result<Imported> Imported::take(DLManagedTensorVersioned *tensor) {
  if (!tensor)
    return Error("DLPack: there is no tensor (null)");
  std::shared_ptr<void> owner = own(tensor);
  if (tensor->version.major != 1) // beyond version, context and deleter the struct may then be another one
    return Error("DLPack: expected version 1, found " + std::to_string(tensor->version.major) + "." +
                 std::to_string(tensor->version.minor));
  Result<TensorRef> ref = toRef(tensor->dl_tensor, !(tensor->flags & kReadOnly));
  if (!ref)
    return ref.error();
  return Imported(std::move(*ref), std::move(owner));
}

DLManagedTensor *fromRef(const TensorRef &tensor, std::shared_ptr<void> owner) {
  return makeExported<DLManagedTensor>(tensor, std::move(owner));
}

DLManagedTensorVersioned *fromRefVersioned(const TensorRef &tensor, std::shared_ptr<void> owner) {
  auto *managed = makeExported<DLManagedTensorVersioned>(tensor, std::move(owner));
  managed->version = {1, 0};
  managed->flags = tensor.writable ? 0 : kReadOnly;
  return managed;
}

} // namespace yaglom::dlpack
