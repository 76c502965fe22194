// Asks the driver for its GPUs, and retains their primary contexts once each.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Device.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

namespace yaglom::cuda {

std::string Device::architecture() const { return fmt::format("sm_{}", computeCapability); }

Result<int> deviceCount(const DriverPointer &driver) {
  int count = 0;
  if (auto done = driver->check(driver->api.cuDeviceGetCount(&count), "cuDeviceGetCount"); !done)
    return done.error();
  return count;
}

Result<Device> device(const DriverPointer &driver, int ordinal) {
  const Result<int> count = deviceCount(driver);
  if (!count)
    return count.error();
  if (ordinal < 0 || ordinal >= *count)
    return Error(fmt::format("there is no CUDA device {}: the driver sees {}{}", ordinal, *count,
                             *count ? fmt::format(", numbered from 0 to {}", *count - 1) : ""));

  const abi::Functions &api = driver->api;
  const std::string subject = fmt::format("CUDA device {}", ordinal);
  abi::DeviceOrdinal handle = 0;
  if (auto done = driver->check(api.cuDeviceGet(&handle, ordinal), "cuDeviceGet", subject); !done)
    return done.error();

  Device device;
  device.ordinal = ordinal;
  char name[256] = {};
  if (auto done = driver->check(api.cuDeviceGetName(name, sizeof name - 1, handle), "cuDeviceGetName", subject); !done)
    return done.error();
  device.name = name;
  if (auto done = driver->check(api.cuDeviceTotalMem(&device.memoryBytes, handle), "cuDeviceTotalMem", subject); !done)
    return done.error();

  int major = 0;
  int minor = 0;
  const std::pair<int *, abi::DeviceAttribute> attributes[] = {
      {&major, abi::kComputeCapabilityMajor},
      {&minor, abi::kComputeCapabilityMinor},
      {&device.multiprocessors, abi::kMultiprocessorCount},
      {&device.warpSize, abi::kWarpSize},
      {&device.threadsPerBlock, abi::kMaxThreadsPerBlock},
      {&device.threadsPerMultiprocessor, abi::kMaxThreadsPerMultiprocessor},
      {&device.registersPerBlock, abi::kMaxRegistersPerBlock},
      {&device.registersPerMultiprocessor, abi::kMaxRegistersPerMultiprocessor},
      {&device.sharedBytesPerBlock, abi::kMaxSharedMemoryPerBlock},
      {&device.sharedBytesPerBlockOptIn, abi::kMaxSharedMemoryPerBlockOptin},
      {&device.sharedBytesPerMultiprocessor, abi::kMaxSharedMemoryPerMultiprocessor},
      {&device.l2Bytes, abi::kL2CacheSize},
  };
  for (const auto &[value, attribute] : attributes) {
    const abi::Status status = api.cuDeviceGetAttribute(value, attribute, handle);
    if (status != abi::kSuccess)
      return driver->error(status, fmt::format("cuDeviceGetAttribute({})", static_cast<int>(attribute)), subject);
  }
  device.computeCapability = 10 * major + minor;
  return device;
}

Result<std::vector<Device>> devices(const DriverPointer &driver) {
  const Result<int> count = deviceCount(driver);
  if (!count)
    return count.error();
  std::vector<Device> all;
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    Result<Device> one = device(driver, ordinal);
    if (!one)
      return one.error();
    all.push_back(std::move(*one));
  }
  return all;
}

struct Context::State {
  DriverPointer driver;
  Device device;
  abi::DeviceOrdinal ordinal = 0;
  abi::Context context = nullptr;

  State() = default;
  State(const State &) = delete;
  State &operator=(const State &) = delete;
  ~State() {
    // The status tells nothing that could be acted on: when the process ends the driver may be gone already.
    if (context && !driver->isForked())
      driver->api.cuDevicePrimaryCtxRelease(ordinal);
  }
};

namespace {

/// The contexts that are in use, by driver and ordinal. Never destroyed: a Context may outlive every other static
/// object.
struct Contexts {
  std::mutex mutex;
  std::map<std::pair<const Driver *, int>, std::weak_ptr<const void>> byOrdinal;
};

Contexts &contexts() {
  static auto *all = new Contexts;
  return *all;
}

} // namespace

Result<Context> Context::retain(const DriverPointer &driver, int ordinal) {
  if (driver->isForked())
    return Driver::forkedError();
  const std::lock_guard lock(contexts().mutex);
  std::weak_ptr<const void> &known = contexts().byOrdinal[{driver.get(), ordinal}];
  if (const auto state = std::static_pointer_cast<const State>(known.lock()))
    return Context(state);

  Result<Device> device = cuda::device(driver, ordinal);
  if (!device)
    return device.error();
  const auto state = std::make_shared<State>();
  state->driver = driver;
  state->device = std::move(*device);
  const std::string subject = fmt::format("CUDA device {} ({})", ordinal, state->device.name);
  if (auto done = driver->check(driver->api.cuDeviceGet(&state->ordinal, ordinal), "cuDeviceGet", subject); !done)
    return done.error();
  const abi::Status status = driver->api.cuDevicePrimaryCtxRetain(&state->context, state->ordinal);
  if (status != abi::kSuccess) {
    state->context = nullptr;
    return driver->error(status, "cuDevicePrimaryCtxRetain", subject);
  }
  known = state;
  return Context(state);
}

const Device &Context::device() const { return state->device; }
const DriverPointer &Context::driver() const { return state->driver; }
abi::Context Context::handle() const { return state->context; }

Result<ContextScope> ContextScope::enter(const Context &context) {
  const Driver &driver = *context.driver();
  if (driver.isForked())
    return Driver::forkedError();
  abi::Context former = nullptr;
  if (auto done = driver.check(driver.api.cuCtxGetCurrent(&former), "cuCtxGetCurrent"); !done)
    return done.error();
  if (former == context.handle())
    return ContextScope(nullptr, nullptr);
  if (auto done = driver.check(driver.api.cuCtxSetCurrent(context.handle()), "cuCtxSetCurrent"); !done)
    return done.error();
  return ContextScope(&driver, former);
}

ContextScope::ContextScope(ContextScope &&other) noexcept
    : driver(std::exchange(other.driver, nullptr)), former(other.former) {}

ContextScope::~ContextScope() {
  if (driver && !driver->isForked())
    driver->api.cuCtxSetCurrent(former);
}

} // namespace yaglom::cuda
