// Tensors of other libraries by DLPack (https://dmlc.github.io/dlpack): PyTorch, JAX, NumPy, CuPy and others hand them out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

#include <cstdint>
#include <memory>

/// The structs of DLPack 0.8 and 1.0, declared anew: a pointer to the same struct of dlpack.h may be cast to these.
namespace yaglom::dlpack {

enum DLDeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };
enum DLDataTypeCode : uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4 };

struct DLDevice {
  int32_t device_type; ///< DLDeviceType
  int32_t device_id;   ///< CUDA ordinal
};

struct DLDataType {
  uint8_t code; ///< DLDataTypeCode
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;     ///< in elements; null: row-major
  uint64_t byte_offset; ///< of the first element behind `data`
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensor *self); ///< may be null
};

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

inline constexpr uint64_t kReadOnly = 1; ///< DLPACK_FLAG_BITMASK_READ_ONLY

/// What DLPack 1.0 hands out.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
};

/// The memory of `tensor`, which its owner keeps alive: nothing is taken over, no deleter called. Managed and page-locked
/// memory count as the GPU's and the host's. Errors: another device than a processor or a CUDA GPU; another element type than
/// f32, f64, f16 and bf16.
YAGLOM_API Result<TensorRef> toRef(const DLTensor &tensor, bool writable = true);

/// A tensor taken over from another library: its deleter is called once, when this goes.
class YAGLOM_API Imported {
public:
  /// Takes `tensor` over, also when it cannot be used: its deleter is then called at once. An Error as toRef(), for null, and
  /// for a major version of DLPack other than 1.
  static Result<Imported> take(DLManagedTensor *tensor);
  static Result<Imported> take(DLManagedTensorVersioned *tensor);

  const TensorRef &ref() const { return tensor; }

private:
  Imported(TensorRef tensor, std::shared_ptr<void> owner) : tensor(std::move(tensor)), owner(std::move(owner)) {}
  TensorRef tensor;
  std::shared_ptr<void> owner;
};

/// `tensor` for another library, which calls the deleter once: that drops `owner`, whatever keeps the memory alive. Strides
/// are always given.
YAGLOM_API DLManagedTensor *fromRef(const TensorRef &tensor, std::shared_ptr<void> owner = {});
/// The same as DLPack 1.0 has it; read-only unless `tensor` is writable.
YAGLOM_API DLManagedTensorVersioned *fromRefVersioned(const TensorRef &tensor, std::shared_ptr<void> owner = {});

} // namespace yaglom::dlpack
