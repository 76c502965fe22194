// Allocates, copies and fills memory of a GPU, and asks the driver about pointers.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Memory.h"

#include <fmt/format.h>

#include <utility>

namespace yaglom::cuda {

namespace {

Error allocationError(const Context &context, abi::Status status, size_t bytes) {
  std::string subject = fmt::format("allocating {} bytes on CUDA device {}", bytes, context.device().ordinal);
  size_t free = 0;
  size_t total = 0;
  if (status == abi::kOutOfMemory && context.driver()->api.cuMemGetInfo(&free, &total) == abi::kSuccess)
    subject += fmt::format(" ({} of {} are free)", free, total);
  return context.driver()->error(status, "cuMemAlloc", subject);
}

/// Calls `call(api)` with the context current.
template <typename Call>
Result<void> within(const Context &context, std::string_view name, std::string_view verb, size_t bytes,
                    const Call &call) {
  if (bytes == 0)
    return {};
  const Result<ContextScope> scope = ContextScope::enter(context);
  if (!scope)
    return scope.error();
  const abi::Status status = call(context.driver()->api);
  if (status == abi::kSuccess)
    return {};
  return context.driver()->error(status, name, fmt::format("{} {} bytes", verb, bytes));
}

} // namespace

Result<DeviceMemory> DeviceMemory::allocate(const Context &context, size_t bytes) {
  if (bytes == 0)
    return DeviceMemory(context, 0, 0);
  const Result<ContextScope> scope = ContextScope::enter(context);
  if (!scope)
    return scope.error();
  DevicePointer pointer = 0;
  const abi::Status status = context.driver()->api.cuMemAlloc(&pointer, bytes);
  if (status != abi::kSuccess)
    return allocationError(context, status, bytes);
  return DeviceMemory(context, pointer, bytes);
}

void DeviceMemory::free() {
  if (!pointer)
    return;
  if (const Result<ContextScope> scope = ContextScope::enter(owner))
    owner.driver()->api.cuMemFree(pointer);
  pointer = 0;
  size = 0;
}

DeviceMemory::DeviceMemory(DeviceMemory &&other) noexcept
    : owner(std::move(other.owner)), pointer(std::exchange(other.pointer, 0)), size(std::exchange(other.size, 0)) {}

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  if (this == &other)
    return *this;
  free();
  owner = std::move(other.owner);
  pointer = std::exchange(other.pointer, 0);
  size = std::exchange(other.size, 0);
  return *this;
}

DeviceMemory::~DeviceMemory() { free(); }

Result<void> copyToDevice(const Context &context, DevicePointer to, const void *from, size_t bytes,
                          std::optional<StreamHandle> stream) {
  return within(context, stream ? "cuMemcpyHtoDAsync" : "cuMemcpyHtoD", "copying to the GPU", bytes,
                [&](const abi::Functions &api) {
                  return stream ? api.cuMemcpyHtoDAsync(to, from, bytes, *stream) : api.cuMemcpyHtoD(to, from, bytes);
                });
}

Result<void> copyToHost(const Context &context, void *to, DevicePointer from, size_t bytes,
                        std::optional<StreamHandle> stream) {
  return within(context, stream ? "cuMemcpyDtoHAsync" : "cuMemcpyDtoH", "copying from the GPU", bytes,
                [&](const abi::Functions &api) {
                  return stream ? api.cuMemcpyDtoHAsync(to, from, bytes, *stream) : api.cuMemcpyDtoH(to, from, bytes);
                });
}

Result<void> copyOnDevice(const Context &context, DevicePointer to, DevicePointer from, size_t bytes,
                          StreamHandle stream) {
  return within(context, "cuMemcpyDtoDAsync", "copying on the GPU", bytes,
                [&](const abi::Functions &api) { return api.cuMemcpyDtoDAsync(to, from, bytes, stream); });
}

Result<void> fill(const Context &context, DevicePointer to, uint8_t value, size_t bytes,
                  std::optional<StreamHandle> stream) {
  return within(context, stream ? "cuMemsetD8Async" : "cuMemsetD8", "filling", bytes, [&](const abi::Functions &api) {
    return stream ? api.cuMemsetD8Async(to, value, bytes, *stream) : api.cuMemsetD8(to, value, bytes);
  });
}

Result<PointerInfo> pointerInfo(const Context &context, const void *pointer) {
  const Result<ContextScope> scope = ContextScope::enter(context);
  if (!scope)
    return scope.error();
  // Eight zeroed bytes each: the attributes are of different widths. What the driver does not know stays 0.
  uint64_t type = 0;
  uint64_t managed = 0;
  int ordinal = -1;
  int attributes[] = {abi::kPointerMemoryType, abi::kPointerIsManaged, abi::kPointerDeviceOrdinal};
  void *values[] = {&type, &managed, &ordinal};
  const abi::Status status =
      context.driver()->api.cuPointerGetAttributes(3, attributes, values, reinterpret_cast<DevicePointer>(pointer));
  if (status != abi::kSuccess)
    return context.driver()->error(status, "cuPointerGetAttributes",
                                   fmt::format("asking for the memory at {}", pointer));
  if (managed)
    return PointerInfo{PointerKind::Managed, ordinal};
  if (type == abi::kMemoryDevice)
    return PointerInfo{PointerKind::Device, ordinal};
  if (type == abi::kMemoryHost)
    return PointerInfo{PointerKind::PinnedHost, ordinal};
  return PointerInfo{};
}

Result<void> checkDevicePointer(const Context &context, std::string_view argument, const void *pointer,
                                size_t alignment) {
  const int wanted = context.device().ordinal;
  const auto found = [&](std::string_view what) {
    return Error(fmt::format("argument '{}': expected memory of CUDA device {}, found {}", argument, wanted, what));
  };
  if (!pointer)
    return found("a null pointer");
  const Result<PointerInfo> info = pointerInfo(context, pointer);
  if (!info)
    return Error(fmt::format("argument '{}': {}", argument, info.error().what()));
  switch (info->kind) {
  case PointerKind::Host:
    return found("host memory");
  case PointerKind::PinnedHost:
    return found("page-locked host memory");
  case PointerKind::Device:
    if (info->device != wanted)
      return found(fmt::format("memory of device {}", info->device));
    break;
  case PointerKind::Managed:
    break;
  }
  if (const auto address = reinterpret_cast<uintptr_t>(pointer); alignment && address % alignment != 0)
    return Error(fmt::format("argument '{}': expected an address that is a multiple of {}, found {}", argument,
                             alignment, pointer));
  return {};
}

} // namespace yaglom::cuda
