// Named tensors on a device: one block of memory for those that are made together, the caller's for others.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/DeviceParameters.h"

#include "runtime/HeadTensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace yaglom {
namespace runtime {

std::string placeText(int device) {
  return device == TensorRef::kHost ? "host memory" : fmt::format("memory of CUDA device {}", device);
}

std::size_t bytesOf(DType dtype, const Shape &shape) {
  std::size_t bytes = sizeOf(dtype);
  for (const int64_t size : shape)
    bytes *= static_cast<std::size_t>(size);
  return bytes;
}

bool isRowMajor(const TensorRef &tensor) {
  int64_t step = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0; step *= tensor.shape[axis])
    if (tensor.shape[axis] > 1 && tensor.strides[axis] != step)
      return false;
  return true;
}

std::optional<HeadMemory> HeadTensors::find(std::string_view name) const {
  if (host) {
    const Tensor *tensor = host->find(name);
    return tensor ? std::optional<HeadMemory>(*tensor) : std::nullopt;
  }
  if (!device)
    return HeadMemory();
  const DeviceParameters::Impl::Entry *entry = std::as_const(device->data()).find(name);
  return entry ? std::optional<HeadMemory>(entry->ref) : std::nullopt;
}

const Parameters &HeadTensors::onHost(Parameters &copies, void *stream) const {
  if (host)
    return *host;
  return copies = device->download(stream);
}

} // namespace runtime

using runtime::bytesOf;

const DeviceParameters::Impl::Entry *DeviceParameters::Impl::find(std::string_view name) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry &e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

void DeviceParameters::Impl::put(Entry entry) {
  if (Entry *there = find(entry.name))
    *there = std::move(entry);
  else
    entries.push_back(std::move(entry));
}

void DeviceParameters::Impl::allocate(const std::vector<Wanted> &wanted, void *stream, const std::string &what) {
  constexpr std::size_t kAlignment = 256;
  std::vector<std::size_t> offsets;
  std::size_t total = 0;
  for (const Wanted &one : wanted) {
    offsets.push_back(total);
    total += (bytesOf(one.dtype, one.shape) + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (wanted.empty())
    return;
  const runtime::Block block = runtime::allocate(device, total, stream, what);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    TensorRef ref(static_cast<void *>(block.data ? block.data + offsets[i] : nullptr), wanted[i].dtype,
                  wanted[i].shape);
    ref.device = device ? device->ordinal() : TensorRef::kHost;
    put({wanted[i].name, std::move(ref), block.owner});
  }
}

void DeviceParameters::Impl::bind(const std::shared_ptr<runtime::GpuDevice> &target, const std::string &argument) {
  const int wanted = target ? target->ordinal() : TensorRef::kHost;
  for (const Entry &entry : entries)
    if (entry.ref.device != wanted)
      throw Error(fmt::format("argument '{}': expected {}, found {}", argument, runtime::placeText(wanted),
                              runtime::placeText(entry.ref.device)));
  device = target;
}

DeviceParameters::DeviceParameters() : impl(std::make_unique<Impl>()) {}
DeviceParameters::DeviceParameters(DeviceParameters &&) noexcept = default;
DeviceParameters &DeviceParameters::operator=(DeviceParameters &&) noexcept = default;
DeviceParameters::~DeviceParameters() = default;

std::vector<std::string> DeviceParameters::names() const {
  std::vector<std::string> names;
  for (const Impl::Entry &entry : impl->entries)
    names.push_back(entry.name);
  return names;
}

bool DeviceParameters::contains(std::string_view name) const { return impl->find(name); }

TensorRef DeviceParameters::operator[](std::string_view name) const {
  if (const Impl::Entry *entry = impl->find(name))
    return entry->ref;
  const std::vector<std::string> known = names();
  throw Error(fmt::format("no tensor '{}'; there {}", name,
                          known.empty() ? "are none" : fmt::format("is '{}'", fmt::join(known, "', '"))));
}

void DeviceParameters::set(const std::string &name, const TensorRef &memory) {
  if (memory.strides.size() != memory.shape.size() || !runtime::isRowMajor(memory))
    throw Error(fmt::format("argument '{}': expected row-major memory, found shape [{}], strides [{}]", name,
                            fmt::join(memory.shape, ", "), fmt::join(memory.strides, ", ")));
  if (!memory.writable)
    throw Error(fmt::format("argument '{}': expected writable memory, found a pointer to const", name));
  if (impl->entries.empty() && memory.device != TensorRef::kHost)
    impl->device = runtime::cudaDevice(memory.device).value();
  const int wanted = impl->entries.empty() ? memory.device : impl->entries.front().ref.device;
  if (memory.device != wanted)
    throw Error(fmt::format("argument '{}': expected {}, found {}", name, runtime::placeText(wanted),
                            runtime::placeText(memory.device)));
  impl->put({name, memory});
}

void DeviceParameters::update(const Parameters &values, void *stream) {
  for (const Parameters::Entry &value : values) {
    const Impl::Entry *there = impl->find(value.name);
    if (!there)
      throw Error(fmt::format("argument '{}': there is no tensor of that name to update", value.name));
    if (there->ref.dtype != value.tensor.dtype() || there->ref.shape != value.tensor.shape())
      throw Error(fmt::format("argument '{}': expected {} [{}], found {} [{}]", value.name, toText(there->ref.dtype),
                              fmt::join(there->ref.shape, ", "), toText(value.tensor.dtype()),
                              fmt::join(value.tensor.shape(), ", ")));
  }
  const std::unique_ptr<runtime::GpuSession> session = runtime::beginCopies(impl->device, stream);
  for (const Parameters::Entry &value : values) {
    const TensorRef &ref = impl->find(value.name)->ref;
    session->upload(static_cast<char *>(const_cast<void *>(ref.data)), value.tensor.data(),
                    bytesOf(ref.dtype, ref.shape));
  }
}

Parameters DeviceParameters::download(void *stream) const {
  const std::unique_ptr<runtime::GpuSession> session = runtime::beginCopies(impl->device, stream);
  Parameters values;
  for (const Impl::Entry &entry : impl->entries) {
    Tensor tensor(entry.ref.dtype, entry.ref.shape);
    session->download(tensor.data(), static_cast<const char *>(entry.ref.data),
                      bytesOf(entry.ref.dtype, entry.ref.shape));
    values.set(entry.name, std::move(tensor));
  }
  return values;
}

} // namespace yaglom
