// The part of the CUDA driver's binary interface that yaglom uses, declared anew: no build needs a CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Names and values are cuda.h's; AbiCheck.cpp compares them with it wherever a toolkit is found.
namespace yaglom::cuda::abi {

using Status = int;             ///< CUresult
using DeviceOrdinal = int;      ///< CUdevice
using DevicePointer = uint64_t; ///< CUdeviceptr

using Context = struct OpaqueContext *;
using Module = struct OpaqueModule *;
using Function = struct OpaqueFunction *;
using Stream = struct OpaqueStream *; ///< null: the legacy default stream
using Event = struct OpaqueEvent *;

/// The values of CUresult to which yaglom gives a meaning.
enum StatusCode : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kNewerDriverNeeded = 36,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kNvlinkUncorrectable = 220,
  kJitCompilerNotFound = 221,
  kUnsupportedPtxVersion = 222,
  kJitCompilationDisabled = 223,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kCompatNotSupportedOnDevice = 804,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kStreamCaptureWrongThread = 908,
  kInvalidClusterSize = 912,
  kUnknown = 999,
};

/// CUdevice_attribute.
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxSharedMemoryPerBlock = 8,
  kWarpSize = 10,
  kMaxRegistersPerBlock = 12,
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerMultiprocessor = 81,
  kMaxRegistersPerMultiprocessor = 82,
  kMaxSharedMemoryPerBlockOptin = 97,
};

/// CUfunction_attribute.
enum FunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedBytes = 1,
  kFunctionConstantBytes = 2,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionPtxVersion = 5,
  kFunctionBinaryVersion = 6,
  kFunctionMaxDynamicSharedBytes = 8,
};

/// CUjit_option.
enum JitOption : int {
  kJitInfoLogBuffer = 3,
  kJitInfoLogBufferBytes = 4,
  kJitErrorLogBuffer = 5,
  kJitErrorLogBufferBytes = 6,
  kJitLogVerbose = 12,
};

/// CUpointer_attribute.
enum PointerAttribute : int {
  kPointerMemoryType = 2,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
};

/// CUmemorytype.
enum MemoryType : unsigned { kMemoryHost = 1, kMemoryDevice = 2 };

/// CUstreamCaptureStatus.
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };

/// CUstream_flags and CUdriverProcAddress_flags.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr uint64_t kProcAddressLegacyStream = 1;

/// CUlaunchAttributeID.
enum LaunchAttributeId : int { kLaunchClusterDimension = 4, kLaunchProgrammaticStreamSerialization = 6 };

/// CUlaunchAttributeValue.
union LaunchAttributeValue {
  char pad[64];
  struct {
    unsigned x, y, z;
  } clusterDimension;
  int programmaticStreamSerializationAllowed;
};

/// CUlaunchAttribute.
struct LaunchAttribute {
  int id;
  char pad[8 - sizeof(int)];
  LaunchAttributeValue value;
};

/// CUlaunchConfig: a grid in blocks, a block in threads, dynamic shared memory in bytes.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

/// cuGetProcAddress_v2, through which all others are fetched.
using GetProcAddress = Status (*)(const char *symbol, void **function, int cudaVersion, uint64_t flags, int *found);

/// The version of the interface that is declared here, as cuDriverGetVersion counts: 12.0.
inline constexpr int kCudaVersion = 12000;

} // namespace yaglom::cuda::abi

// X(name, exported, required, parameters): every function that is fetched. `name` is what cuGetProcAddress_v2 is asked
// for, `exported` the symbol of the same function in libcuda.so.1: the plain name is often an older function of other
// types.
// clang-format off
#define YAGLOM_CUDA_FUNCTIONS(X)                                                                                       \
  X(cuInit, "cuInit", true, (unsigned))                                                                                \
  X(cuDriverGetVersion, "cuDriverGetVersion", true, (int *))                                                           \
  X(cuGetErrorName, "cuGetErrorName", true, (Status, const char **))                                                   \
  X(cuGetErrorString, "cuGetErrorString", true, (Status, const char **))                                               \
  X(cuDeviceGet, "cuDeviceGet", true, (DeviceOrdinal *, int))                                                          \
  X(cuDeviceGetCount, "cuDeviceGetCount", true, (int *))                                                               \
  X(cuDeviceGetName, "cuDeviceGetName", true, (char *, int, DeviceOrdinal))                                            \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", true, (int *, int, DeviceOrdinal))                                   \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", true, (size_t *, DeviceOrdinal))                                          \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", true, (Context *, DeviceOrdinal))                            \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", true, (DeviceOrdinal))                                  \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", true, (Context *))                                                             \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", true, (Context))                                                               \
  X(cuMemGetInfo, "cuMemGetInfo_v2", true, (size_t *, size_t *))                                                       \
  X(cuMemAlloc, "cuMemAlloc_v2", true, (DevicePointer *, size_t))                                                      \
  X(cuMemFree, "cuMemFree_v2", true, (DevicePointer))                                                                  \
  X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", true, (DevicePointer, const void *, size_t))                                      \
  X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", true, (void *, DevicePointer, size_t))                                            \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", true, (DevicePointer, const void *, size_t, Stream))                    \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", true, (void *, DevicePointer, size_t, Stream))                          \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", true, (DevicePointer, DevicePointer, size_t, Stream))                   \
  X(cuMemsetD8, "cuMemsetD8_v2", true, (DevicePointer, unsigned char, size_t))                                         \
  X(cuMemsetD8Async, "cuMemsetD8Async", true, (DevicePointer, unsigned char, size_t, Stream))                          \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", true, (unsigned, int *, void **, DevicePointer))                 \
  X(cuModuleLoadDataEx, "cuModuleLoadDataEx", true, (Module *, const void *, unsigned, int *, void **))                \
  X(cuModuleUnload, "cuModuleUnload", true, (Module))                                                                  \
  X(cuModuleGetFunction, "cuModuleGetFunction", true, (Function *, Module, const char *))                              \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", true, (int *, int, Function))                                            \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", true, (Function, int, int))                                              \
  X(cuFuncLoad, "cuFuncLoad", false, (Function))                                                                       \
  X(cuFuncGetParamInfo, "cuFuncGetParamInfo", false, (Function, size_t, size_t *, size_t *))                           \
  X(cuLaunchKernel, "cuLaunchKernel", true,                                                                            \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **))        \
  X(cuLaunchKernelEx, "cuLaunchKernelEx", false, (const LaunchConfig *, Function, void **, void **))                   \
  X(cuStreamCreate, "cuStreamCreate", true, (Stream *, unsigned))                                                      \
  X(cuStreamDestroy, "cuStreamDestroy_v2", true, (Stream))                                                             \
  X(cuStreamSynchronize, "cuStreamSynchronize", true, (Stream))                                                        \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", true, (Stream, int *))                                                 \
  X(cuEventCreate, "cuEventCreate", true, (Event *, unsigned))                                                         \
  X(cuEventDestroy, "cuEventDestroy_v2", true, (Event))                                                                \
  X(cuEventRecord, "cuEventRecord", true, (Event, Stream))                                                             \
  X(cuEventSynchronize, "cuEventSynchronize", true, (Event))                                                           \
  X(cuEventElapsedTime, "cuEventElapsedTime", true, (float *, Event, Event))
// clang-format on

namespace yaglom::cuda::abi {

/// The driver's functions, each null until it is fetched. Optional ones stay null where the driver is too old for them.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): types have none
#define YAGLOM_CUDA_DECLARE(name, exported, required, parameters) Status(*name) parameters = nullptr;
  YAGLOM_CUDA_FUNCTIONS(YAGLOM_CUDA_DECLARE)
#undef YAGLOM_CUDA_DECLARE
};

} // namespace yaglom::cuda::abi
