// Memory of a GPU: allocating, copying, and finding out what a caller's pointer points to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Device.h"

#include <optional>

namespace yaglom::cuda {

using abi::DevicePointer;

/// A stream of the driver (CUstream), as PyTorch's `stream.cuda_stream` gives it. Null is the legacy default stream.
using StreamHandle = abi::Stream;

/// Memory of one GPU, freed when this is destroyed; work that still uses it must be done by then. Moved from, it is
/// empty and has no context.
class DeviceMemory {
public:
  /// Allocates `bytes`, aligned to 256; none for 0. Errors: the GPU's memory is full, a stream is being captured.
  static Result<DeviceMemory> allocate(const Context &context, size_t bytes);

  DeviceMemory(DeviceMemory &&other) noexcept;
  DeviceMemory &operator=(DeviceMemory &&other) noexcept;
  ~DeviceMemory();

  /// The address on the GPU; 0 when empty.
  DevicePointer address() const { return pointer; }
  size_t bytes() const { return size; }
  const Context &context() const { return owner; }

private:
  DeviceMemory(Context owner, DevicePointer pointer, size_t size)
      : owner(std::move(owner)), pointer(pointer), size(size) {}
  void free();

  Context owner;
  DevicePointer pointer;
  size_t size;
};

// Copies and fills of `bytes` bytes. Without a stream they are done when the call returns; on a stream they are only
// enqueued: the memory must stay as it is until the stream has come past them. From and to host memory that is not
// page-locked the driver may wait for them nevertheless. Zero bytes need no pointer, and no driver.

Result<void> copyToDevice(const Context &context, DevicePointer to, const void *from, size_t bytes,
                          std::optional<StreamHandle> stream = std::nullopt);
Result<void> copyToHost(const Context &context, void *to, DevicePointer from, size_t bytes,
                        std::optional<StreamHandle> stream = std::nullopt);
/// From the GPU to itself. Always enqueued.
Result<void> copyOnDevice(const Context &context, DevicePointer to, DevicePointer from, size_t bytes,
                          StreamHandle stream);
/// Every byte becomes `value`. Without a stream it may still be running afterwards, but before what the default stream
/// does next.
Result<void> fill(const Context &context, DevicePointer to, uint8_t value, size_t bytes,
                  std::optional<StreamHandle> stream = std::nullopt);

/// What a pointer points to, by the driver's books.
enum class PointerKind {
  Host,       ///< ordinary host memory, or nothing at all
  PinnedHost, ///< host memory that the driver has page-locked
  Device,     ///< memory of one GPU
  Managed,    ///< memory that moves between host and GPUs
};

struct PointerInfo {
  PointerKind kind = PointerKind::Host;
  int device = -1; ///< the ordinal where it was allocated; -1 for Host
};

Result<PointerInfo> pointerInfo(const Context &context, const void *pointer);

/// Checks that a kernel in `context` can use `pointer`: memory of that GPU, or managed, at a multiple of `alignment`
/// bytes. Errors name the argument: "argument 'Q': expected memory of CUDA device 0, found host memory".
Result<void> checkDevicePointer(const Context &context, std::string_view argument, const void *pointer,
                                size_t alignment = 16);

} // namespace yaglom::cuda
