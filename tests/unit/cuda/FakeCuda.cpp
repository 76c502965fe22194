// libcuda.so.1 on host memory, recording every call: all functions here, since they share a hidden state. YAGLOM_FAKE_OLD lacks
// what CUDA 11.4 lacks, YAGLOM_FAKE_BROKEN also a function that we need; YAGLOM_FAKE_RUNS runs kernels (FakeRuns.cpp).
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/FakeCuda.h"

#include "runtime/cuda/Abi.h"
#include "tests/unit/cuda/FakeRuns.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>

// The names are the driver's, and addresses on its device are numbers.
// NOLINTBEGIN(readability-identifier-naming,performance-no-int-to-ptr,bugprone-throwing-static-initialization)

#define YAGLOM_FAKE extern "C" __attribute__((visibility("default")))

using namespace yaglom::cuda::abi;
using yaglom::fakecuda::FakeAllocation;
using yaglom::fakecuda::FakeLaunch;

namespace {

std::mutex mutex;
yaglom::fakecuda::State state;
thread_local Context current = nullptr;

/// Records a call; its planned failure, or success.
Status enter(const char *name) {
  const std::lock_guard lock(mutex);
  state.calls.emplace_back(name);
  const auto failure = state.failures.find(name);
  return failure == state.failures.end() ? static_cast<Status>(kSuccess) : failure->second;
}

Context contextOf(int device) { return reinterpret_cast<Context>(static_cast<uintptr_t>(0x1000 + device)); }
int deviceOf(Context context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context) - 0x1000); }

bool anyCapture() { return !state.capturing.empty(); }

/// What must not be called while a stream is being captured: the capture breaks, as it does in the driver.
Status enterUnsafe(const char *name) {
  if (const Status status = enter(name))
    return status;
  if (!current)
    return kInvalidContext;
  if (!anyCapture())
    return kSuccess;
  for (auto &[stream, status] : state.capturing)
    status = kCaptureInvalidated;
  return kStreamCaptureUnsupported;
}

Status enterCurrent(const char *name) {
  const Status status = enter(name);
  return status ? status : static_cast<Status>(current ? kSuccess : kInvalidContext);
}

#ifdef YAGLOM_FAKE_RUNS
using yaglom::fakecuda::FakeFunction;
#else
struct FakeFunction {
  std::string name;
};
#endif

/// On a stream that is being captured `work` is kept for the replay, on others it is done.
Status enqueue(Stream stream, const std::function<Status()> &work) {
  if (!state.capturing.count(stream))
    return work();
  state.captured[stream].push_back(work);
  return kSuccess;
}

char *hostOf(DevicePointer pointer) {
  const auto after = state.memory.upper_bound(pointer);
  if (after == state.memory.begin() || !std::prev(after)->second.host)
    return reinterpret_cast<char *>(pointer);
  const auto &[first, allocation] = *std::prev(after);
  return allocation.host.get() + (pointer - first);
}

} // namespace

YAGLOM_FAKE yaglom::fakecuda::State *fakeCudaState() { return &state; }
YAGLOM_FAKE void fakeCudaReset() {
  state = {};
  current = nullptr;
}

YAGLOM_FAKE int fakeCudaReplay(void *stream) {
  for (const auto &work : state.captured[stream])
    if (const Status status = work())
      return status;
  return kSuccess;
}

YAGLOM_FAKE Status cuInit(unsigned) { return enter("cuInit"); }

YAGLOM_FAKE Status cuDriverGetVersion(int *version) {
  *version = state.version;
  return enter("cuDriverGetVersion");
}

YAGLOM_FAKE Status cuGetErrorName(Status status, const char **name) {
  static thread_local std::string text;
  text = "FAKE_ERROR_" + std::to_string(status);
  *name = state.namesErrors ? text.c_str() : nullptr;
  return state.namesErrors ? kSuccess : kInvalidValue;
}

YAGLOM_FAKE Status cuGetErrorString(Status, const char **text) {
  *text = state.namesErrors ? "the driver's words" : nullptr;
  return state.namesErrors ? kSuccess : kInvalidValue;
}

YAGLOM_FAKE Status cuDeviceGetCount(int *count) {
  *count = static_cast<int>(state.devices.size());
  return enter("cuDeviceGetCount");
}

YAGLOM_FAKE Status cuDeviceGet(DeviceOrdinal *device, int ordinal) {
  *device = ordinal;
  return enter("cuDeviceGet");
}

YAGLOM_FAKE Status cuDeviceGetName(char *name, int size, DeviceOrdinal device) {
  std::strncpy(name, state.devices[device].name.c_str(), size);
  return enter("cuDeviceGetName");
}

YAGLOM_FAKE Status cuDeviceTotalMem(unsigned *, DeviceOrdinal) { return enter("old cuDeviceTotalMem"), kUnknown; }
YAGLOM_FAKE Status cuDeviceTotalMem_v2(size_t *bytes, DeviceOrdinal) {
  *bytes = size_t(80) << 30;
  return enter("cuDeviceTotalMem");
}

YAGLOM_FAKE Status cuDeviceGetAttribute(int *value, int attribute, DeviceOrdinal device) {
  const auto &one = state.devices[device];
  const std::map<int, int> values = {{kComputeCapabilityMajor, one.major},
                                     {kComputeCapabilityMinor, one.minor},
                                     {kMultiprocessorCount, 132},
                                     {kWarpSize, 32},
                                     {kMaxThreadsPerBlock, 1024},
                                     {kMaxThreadsPerMultiprocessor, 2048},
                                     {kMaxRegistersPerBlock, 65536},
                                     {kMaxRegistersPerMultiprocessor, 65537},
                                     {kMaxSharedMemoryPerBlock, 49152},
                                     {kMaxSharedMemoryPerBlockOptin, one.sharedOptIn},
                                     {kMaxSharedMemoryPerMultiprocessor, 233472},
                                     {kL2CacheSize, 50 << 20}};
  const auto found = values.find(attribute);
  *value = found == values.end() ? -1 : found->second;
  return enter("cuDeviceGetAttribute");
}

YAGLOM_FAKE Status cuDevicePrimaryCtxRetain(Context *context, DeviceOrdinal device) {
  if (const Status status = enter("cuDevicePrimaryCtxRetain"))
    return status;
  *context = contextOf(device);
  ++state.retained[device];
  return kSuccess;
}

YAGLOM_FAKE Status cuDevicePrimaryCtxRelease(DeviceOrdinal) { return enter("old cuDevicePrimaryCtxRelease"), kUnknown; }
YAGLOM_FAKE Status cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) {
  --state.retained[device];
  return enter("cuDevicePrimaryCtxRelease");
}

YAGLOM_FAKE Status cuCtxGetCurrent(Context *context) {
  *context = current;
  return enter("cuCtxGetCurrent");
}

YAGLOM_FAKE Status cuCtxSetCurrent(Context context) {
  if (const Status status = enter("cuCtxSetCurrent"))
    return status;
  current = context;
  return kSuccess;
}

YAGLOM_FAKE Status cuMemGetInfo(unsigned *, unsigned *) { return enter("old cuMemGetInfo"), kUnknown; }
YAGLOM_FAKE Status cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = 1000;
  *total = 2000;
  return enterCurrent("cuMemGetInfo");
}

YAGLOM_FAKE Status cuMemAlloc(unsigned *, unsigned) { return enter("old cuMemAlloc"), kUnknown; }
YAGLOM_FAKE Status cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  if (const Status status = enterUnsafe("cuMemAlloc"))
    return status;
#ifdef YAGLOM_FAKE_RUNS
  *pointer = yaglom::fakecuda::allocate(state, bytes, deviceOf(current));
#else
  *pointer = reinterpret_cast<DevicePointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  state.memory[*pointer] = FakeAllocation{bytes, deviceOf(current)};
#endif
  return kSuccess;
}

YAGLOM_FAKE Status cuMemFree(unsigned) { return enter("old cuMemFree"), kUnknown; }
YAGLOM_FAKE Status cuMemFree_v2(DevicePointer pointer) {
  if (const Status status = enterCurrent("cuMemFree"))
    return status;
  const auto found = state.memory.find(pointer);
  if (found == state.memory.end())
    return kInvalidValue;
  if (!found->second.host)
    std::free(reinterpret_cast<void *>(pointer));
  state.memory.erase(found);
  return kSuccess;
}

namespace {

Status copy(const char *name, DevicePointer to, DevicePointer from, size_t bytes) {
  const Status status = enterCurrent(name);
  if (status == kSuccess)
    std::memcpy(hostOf(to), hostOf(from), bytes);
  return status;
}

/// Of memory of the host, which a replay would find changed: yaglom never captures that.
Status copyAsync(const char *name, DevicePointer to, DevicePointer from, size_t bytes, Stream stream) {
  return state.capturing.count(stream) ? enterUnsafe(name) : copy(name, to, from, bytes);
}

DevicePointer number(const void *pointer) { return reinterpret_cast<DevicePointer>(pointer); }

} // namespace

YAGLOM_FAKE Status cuMemcpyHtoD(unsigned, const void *, unsigned) { return enter("old cuMemcpyHtoD"), kUnknown; }
YAGLOM_FAKE Status cuMemcpyDtoH(void *, unsigned, unsigned) { return enter("old cuMemcpyDtoH"), kUnknown; }
YAGLOM_FAKE Status cuMemcpyHtoD_v2(DevicePointer to, const void *from, size_t bytes) {
  return copy("cuMemcpyHtoD", to, number(from), bytes);
}
YAGLOM_FAKE Status cuMemcpyDtoH_v2(void *to, DevicePointer from, size_t bytes) {
  return copy("cuMemcpyDtoH", number(to), from, bytes);
}
YAGLOM_FAKE Status cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, Stream stream) {
  return copyAsync("cuMemcpyHtoDAsync", to, number(from), bytes, stream);
}
YAGLOM_FAKE Status cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, Stream stream) {
  return copyAsync("cuMemcpyDtoHAsync", number(to), from, bytes, stream);
}
YAGLOM_FAKE Status cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Stream) {
  return copy("cuMemcpyDtoDAsync", to, from, bytes);
}

YAGLOM_FAKE Status cuMemsetD8_v2(DevicePointer to, unsigned char value, size_t bytes) {
  const Status status = enterCurrent("cuMemsetD8");
  if (status == kSuccess)
    std::memset(hostOf(to), value, bytes);
  return status;
}
YAGLOM_FAKE Status cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, Stream stream) {
  if (const Status status = enterCurrent("cuMemsetD8Async"))
    return status;
  return enqueue(stream, [=] {
    std::memset(hostOf(to), value, bytes);
    return static_cast<Status>(kSuccess);
  });
}

YAGLOM_FAKE Status cuPointerGetAttributes(unsigned count, int *attributes, void **values, DevicePointer pointer) {
  if (const Status status = enterCurrent("cuPointerGetAttributes"))
    return status;
  auto after = state.memory.upper_bound(pointer);
  const bool known =
      after != state.memory.begin() && pointer < std::prev(after)->first + std::prev(after)->second.bytes;
  const FakeAllocation allocation = known ? std::prev(after)->second : FakeAllocation{0, -2, 0, false, {}};
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == kPointerMemoryType)
      std::memcpy(values[i], &allocation.type, sizeof(unsigned));
    if (attributes[i] == kPointerIsManaged)
      std::memcpy(values[i], &allocation.managed, sizeof(bool));
    if (attributes[i] == kPointerDeviceOrdinal)
      std::memcpy(values[i], &allocation.device, sizeof(int));
  }
  return kSuccess;
}

YAGLOM_FAKE Status cuModuleLoadDataEx(Module *module, const void *image, unsigned count, int *options, void **values) {
  const Status status = enterUnsafe("cuModuleLoadDataEx");
  const auto write = [&](int buffer, const std::string &text) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == buffer)
        std::memcpy(values[i], text.c_str(), text.size() + 1);
  };
  if (status != kSuccess) {
    if (status == kInvalidPtx)
      write(kJitErrorLogBuffer,
            "ptxas application ptx input, line 6; error   : Not a name of any known instruction: 'addd'\n");
    return status;
  }
#ifdef YAGLOM_FAKE_RUNS
  std::string log;
  const Status loaded = yaglom::fakecuda::load(static_cast<const char *>(image), module, log);
  write(kJitErrorLogBuffer, log);
  state.modules += loaded == kSuccess;
  return loaded;
#else
  write(kJitInfoLogBuffer, state.infoLog);
  state.loadedImage = static_cast<const char *>(image); // a cubin of the tests holds no NUL either
  *module = reinterpret_cast<Module>(uintptr_t(0x2000));
  ++state.modules;
  return kSuccess;
#endif
}

YAGLOM_FAKE Status cuModuleUnload(Module) {
  --state.modules;
  return enterCurrent("cuModuleUnload");
}

YAGLOM_FAKE Status cuModuleGetFunction(Function *function, [[maybe_unused]] Module module, const char *name) {
  if (const Status status = enterUnsafe("cuModuleGetFunction"))
    return status;
#ifdef YAGLOM_FAKE_RUNS
  return yaglom::fakecuda::find(module, name, function);
#else
  if (state.loadedImage.find(std::string(".entry ") + name + "(") == std::string::npos)
    return kNotFound;
  static std::map<std::string, FakeFunction> functions;
  *function = reinterpret_cast<Function>(&(functions[name] = FakeFunction{name}));
  return kSuccess;
#endif
}

YAGLOM_FAKE Status cuFuncGetAttribute(int *value, int attribute, Function) {
  *value = state.functionAttributes[attribute];
  return enterCurrent("cuFuncGetAttribute");
}

YAGLOM_FAKE Status cuFuncSetAttribute(Function function, int attribute, int value) {
  state.functionSettings[reinterpret_cast<FakeFunction *>(function)->name + ":" + std::to_string(attribute)] = value;
  return enterCurrent("cuFuncSetAttribute");
}

namespace {

FakeLaunch begun(Function function, unsigned shared, Stream stream, void **parameters) {
  FakeLaunch launch;
  launch.function = reinterpret_cast<FakeFunction *>(function)->name;
  launch.shared = shared;
  launch.stream = stream;
#ifdef YAGLOM_FAKE_RUNS
  state.parameterBytes = yaglom::fakecuda::parameterBytes(function);
#endif
  for (size_t i = 0; i < state.parameterBytes.size(); ++i)
    launch.parameters.emplace_back(static_cast<const char *>(parameters[i]), state.parameterBytes[i]);
  return launch;
}

} // namespace

YAGLOM_FAKE Status cuLaunchKernel(Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                  unsigned bz, unsigned shared, Stream stream, void **parameters, void **) {
  if (const Status status = enterCurrent("cuLaunchKernel"))
    return status;
  FakeLaunch launch = begun(function, shared, stream, parameters);
  const unsigned extents[] = {gx, gy, gz, bx, by, bz};
  std::memcpy(launch.grid, extents, sizeof launch.grid);
  std::memcpy(launch.block, extents + 3, sizeof launch.block);
  state.launches.push_back(launch);
  return kSuccess;
}

YAGLOM_FAKE Status cuStreamCreate(Stream *stream, unsigned flags) {
  if (const Status status = enterCurrent("cuStreamCreate"))
    return status;
  if (flags != kStreamNonBlocking)
    return kInvalidValue;
  *stream = reinterpret_cast<Stream>(uintptr_t(0x3000 + ++state.streams));
  return kSuccess;
}
YAGLOM_FAKE Status cuStreamDestroy(Stream) { return enter("old cuStreamDestroy"), kUnknown; }
YAGLOM_FAKE Status cuStreamDestroy_v2(Stream) {
  --state.streams;
  return enterCurrent("cuStreamDestroy");
}
YAGLOM_FAKE Status cuStreamSynchronize(Stream stream) {
  if (const Status status = enterCurrent("cuStreamSynchronize"))
    return status;
  return state.capturing.count(stream) ? kStreamCaptureUnsupported : kSuccess;
}

#ifndef YAGLOM_FAKE_BROKEN
YAGLOM_FAKE Status cuStreamIsCapturing(Stream stream, int *status) {
  if (const Status failure = enterCurrent("cuStreamIsCapturing"))
    return failure;
  if (!stream && anyCapture())
    return kStreamCaptureImplicit;
  const auto found = state.capturing.find(stream);
  *status = found == state.capturing.end() ? static_cast<int>(kCaptureNone) : found->second;
  return kSuccess;
}
#endif

YAGLOM_FAKE Status cuEventCreate(Event *event, unsigned) {
  if (const Status status = enterCurrent("cuEventCreate"))
    return status;
  *event = reinterpret_cast<Event>(uintptr_t(0x4000 + ++state.events));
  return kSuccess;
}
YAGLOM_FAKE Status cuEventDestroy(Event) { return enter("old cuEventDestroy"), kUnknown; }
YAGLOM_FAKE Status cuEventDestroy_v2(Event) {
  --state.events;
  return enterCurrent("cuEventDestroy");
}
YAGLOM_FAKE Status cuEventRecord(Event, Stream) { return enterCurrent("cuEventRecord"); }
YAGLOM_FAKE Status cuEventSynchronize(Event) { return enterCurrent("cuEventSynchronize"); }
YAGLOM_FAKE Status cuEventElapsedTime(float *milliseconds, Event, Event) {
  *milliseconds = 1.5f;
  return enterCurrent("cuEventElapsedTime");
}

#ifndef YAGLOM_FAKE_OLD
YAGLOM_FAKE Status cuFuncLoad(Function) { return enterCurrent("cuFuncLoad"); }

YAGLOM_FAKE Status cuFuncGetParamInfo([[maybe_unused]] Function function, size_t index, size_t *offset, size_t *bytes) {
  if (const Status status = enterCurrent("cuFuncGetParamInfo"))
    return status;
#ifdef YAGLOM_FAKE_RUNS
  state.parameterBytes = yaglom::fakecuda::parameterBytes(function);
#endif
  if (index >= state.parameterBytes.size())
    return kInvalidValue;
  *offset = 0;
  *bytes = state.parameterBytes[index];
  return kSuccess;
}

YAGLOM_FAKE Status cuLaunchKernelEx(const LaunchConfig *config, Function function, void **parameters, void **) {
  if (const Status status = enterCurrent("cuLaunchKernelEx"))
    return status;
  FakeLaunch launch = begun(function, config->sharedBytes, config->stream, parameters);
  std::memcpy(launch.grid, &config->gridX, sizeof launch.grid);
  std::memcpy(launch.block, &config->blockX, sizeof launch.block);
  for (unsigned i = 0; i < config->attributeCount; ++i) {
    launch.attributes.push_back(config->attributes[i].id);
    if (config->attributes[i].id == kLaunchClusterDimension)
      std::memcpy(launch.cluster, &config->attributes[i].value, sizeof launch.cluster);
  }
  state.launches.push_back(launch);
#ifdef YAGLOM_FAKE_RUNS
  return enqueue(config->stream, [=, device = deviceOf(current)] {
    return yaglom::fakecuda::run(state, *reinterpret_cast<FakeFunction *>(function), launch, device);
  });
#else
  return kSuccess;
#endif
}

YAGLOM_FAKE Status cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found) {
  state.procAddressVersions.push_back(version);
  state.procAddressFlags.push_back(flags);
  *function = nullptr;
  *found = 1;
  if (!state.hasProcAddressTable)
    return kNotFound;
  Dl_info self;
  dladdr(reinterpret_cast<void *>(&fakeCudaState), &self);
  void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = dlsym(library, (std::string(name) + "_v2").c_str());
  if (!*function)
    *function = dlsym(library, name);
  // What is newer than the version asked for is not given.
  if (std::string(name) == "cuFuncLoad" || std::string(name) == "cuFuncGetParamInfo")
    *function = nullptr;
  dlclose(library);
  *found = *function ? 0 : 2;
  return kSuccess;
}
#endif

// NOLINTEND(readability-identifier-naming,performance-no-int-to-ptr,bugprone-throwing-static-initialization)
