// Devices by the names of targets, and memory that is a device's or the host's.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/GpuDevice.h"

#include "runtime/SumKernels.h"

#include <charconv>
#include <new>

namespace yaglom::runtime {

GpuDevice::GpuDevice() : sumModule(std::make_shared<const compiler::GpuModule>(sumKernelsPtx(), "sm_80")) {}

Result<std::shared_ptr<GpuDevice>> GpuDevice::named(const std::string &target) {
  if (const std::optional<int> ordinal = cudaOrdinal(target))
    return cudaDevice(*ordinal);
  if (target == "emulated" || target.starts_with("emulated:"))
    return emulatedDevice(*compiler::gpuArchitecture(target));
  return std::shared_ptr<GpuDevice>();
}

std::optional<int> cudaOrdinal(const std::string &target) {
  constexpr std::string_view kName = "cuda", kNumbered = "cuda:";
  if (target == kName)
    return 0;
  int ordinal = 0;
  const char *first = target.data() + kNumbered.size(), *last = target.data() + target.size();
  if (!target.starts_with(kNumbered) || first == last || *first == '-')
    return std::nullopt;
  const auto [end, error] = std::from_chars(first, last, ordinal);
  return error == std::errc() && end == last ? std::optional<int>(ordinal) : std::nullopt;
}

std::unique_ptr<GpuSession> beginCopies(const std::shared_ptr<GpuDevice> &device, void *stream) {
  return (device ? device : emulatedDevice("sm_80"))->begin({.stream = stream});
}

Block allocate(const std::shared_ptr<GpuDevice> &device, std::size_t bytes, void *stream, const std::string &what) {
  constexpr std::align_val_t kAlignment{256};
  if (device)
    return device->allocate(bytes, stream, what);
  Block block;
  if (bytes == 0)
    return block;
  block.owner = std::shared_ptr<void>(::operator new(bytes, kAlignment),
                                      [](void *memory) { ::operator delete(memory, kAlignment); });
  block.data = static_cast<char *>(block.owner.get());
  block.bytes = bytes;
  return block;
}

} // namespace yaglom::runtime
