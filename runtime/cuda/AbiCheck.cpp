// Compares Abi.h with the toolkit's cuda.h. Compiled where there is one, linked into nothing.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Abi.h"

#include <cuda.h>

#include <string_view>
#include <type_traits>

namespace yaglom::cuda::abi {

namespace {

// Structures.
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, gridX) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(LaunchConfig, gridY) == offsetof(CUlaunchConfig, gridDimY));
static_assert(offsetof(LaunchConfig, gridZ) == offsetof(CUlaunchConfig, gridDimZ));
static_assert(offsetof(LaunchConfig, blockX) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, blockY) == offsetof(CUlaunchConfig, blockDimY));
static_assert(offsetof(LaunchConfig, blockZ) == offsetof(CUlaunchConfig, blockDimZ));
static_assert(offsetof(LaunchConfig, sharedBytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attributeCount) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, id) == offsetof(CUlaunchAttribute, id));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(LaunchAttributeValue::clusterDimension) == sizeof(CUlaunchAttributeValue::clusterDim));
static_assert(sizeof(Status) == sizeof(CUresult) && sizeof(DeviceOrdinal) == sizeof(CUdevice));
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));

// Numbers.
#define YAGLOM_CUDA_SAME(ours, theirs) static_assert(int(ours) == int(theirs));
YAGLOM_CUDA_SAME(kSuccess, CUDA_SUCCESS)
YAGLOM_CUDA_SAME(kInvalidValue, CUDA_ERROR_INVALID_VALUE)
YAGLOM_CUDA_SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
YAGLOM_CUDA_SAME(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED)
YAGLOM_CUDA_SAME(kDeinitialized, CUDA_ERROR_DEINITIALIZED)
YAGLOM_CUDA_SAME(kStubLibrary, CUDA_ERROR_STUB_LIBRARY)
YAGLOM_CUDA_SAME(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE)
YAGLOM_CUDA_SAME(kNoDevice, CUDA_ERROR_NO_DEVICE)
YAGLOM_CUDA_SAME(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE)
YAGLOM_CUDA_SAME(kInvalidImage, CUDA_ERROR_INVALID_IMAGE)
YAGLOM_CUDA_SAME(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT)
YAGLOM_CUDA_SAME(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)
YAGLOM_CUDA_SAME(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE)
YAGLOM_CUDA_SAME(kInvalidPtx, CUDA_ERROR_INVALID_PTX)
YAGLOM_CUDA_SAME(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE)
YAGLOM_CUDA_SAME(kJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
YAGLOM_CUDA_SAME(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
YAGLOM_CUDA_SAME(kJitCompilationDisabled, CUDA_ERROR_JIT_COMPILATION_DISABLED)
YAGLOM_CUDA_SAME(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE)
YAGLOM_CUDA_SAME(kNotFound, CUDA_ERROR_NOT_FOUND)
YAGLOM_CUDA_SAME(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)
YAGLOM_CUDA_SAME(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT)
YAGLOM_CUDA_SAME(kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
YAGLOM_CUDA_SAME(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED)
YAGLOM_CUDA_SAME(kAssert, CUDA_ERROR_ASSERT)
YAGLOM_CUDA_SAME(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR)
YAGLOM_CUDA_SAME(kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION)
YAGLOM_CUDA_SAME(kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS)
YAGLOM_CUDA_SAME(kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE)
YAGLOM_CUDA_SAME(kInvalidPc, CUDA_ERROR_INVALID_PC)
YAGLOM_CUDA_SAME(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED)
YAGLOM_CUDA_SAME(kCooperativeLaunchTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
YAGLOM_CUDA_SAME(kNotPermitted, CUDA_ERROR_NOT_PERMITTED)
YAGLOM_CUDA_SAME(kNotSupported, CUDA_ERROR_NOT_SUPPORTED)
YAGLOM_CUDA_SAME(kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY)
YAGLOM_CUDA_SAME(kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
YAGLOM_CUDA_SAME(kCompatNotSupportedOnDevice, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)
YAGLOM_CUDA_SAME(kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
YAGLOM_CUDA_SAME(kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
YAGLOM_CUDA_SAME(kStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
YAGLOM_CUDA_SAME(kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
YAGLOM_CUDA_SAME(kStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
YAGLOM_CUDA_SAME(kUnknown, CUDA_ERROR_UNKNOWN)

YAGLOM_CUDA_SAME(kMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
YAGLOM_CUDA_SAME(kMaxSharedMemoryPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)
YAGLOM_CUDA_SAME(kWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE)
YAGLOM_CUDA_SAME(kMaxRegistersPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)
YAGLOM_CUDA_SAME(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
YAGLOM_CUDA_SAME(kL2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
YAGLOM_CUDA_SAME(kMaxThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
YAGLOM_CUDA_SAME(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
YAGLOM_CUDA_SAME(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
YAGLOM_CUDA_SAME(kMaxSharedMemoryPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
YAGLOM_CUDA_SAME(kMaxRegistersPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)
YAGLOM_CUDA_SAME(kMaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)

YAGLOM_CUDA_SAME(kFunctionMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
YAGLOM_CUDA_SAME(kFunctionSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
YAGLOM_CUDA_SAME(kFunctionConstantBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)
YAGLOM_CUDA_SAME(kFunctionLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
YAGLOM_CUDA_SAME(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS)
YAGLOM_CUDA_SAME(kFunctionPtxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION)
YAGLOM_CUDA_SAME(kFunctionBinaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION)
YAGLOM_CUDA_SAME(kFunctionMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)

YAGLOM_CUDA_SAME(kJitInfoLogBuffer, CU_JIT_INFO_LOG_BUFFER)
YAGLOM_CUDA_SAME(kJitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER)
YAGLOM_CUDA_SAME(kJitInfoLogBufferBytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
YAGLOM_CUDA_SAME(kJitErrorLogBufferBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
YAGLOM_CUDA_SAME(kJitLogVerbose, CU_JIT_LOG_VERBOSE)
YAGLOM_CUDA_SAME(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
YAGLOM_CUDA_SAME(kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED)
YAGLOM_CUDA_SAME(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
YAGLOM_CUDA_SAME(kMemoryHost, CU_MEMORYTYPE_HOST)
YAGLOM_CUDA_SAME(kMemoryDevice, CU_MEMORYTYPE_DEVICE)
YAGLOM_CUDA_SAME(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE)
YAGLOM_CUDA_SAME(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE)
YAGLOM_CUDA_SAME(kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED)
YAGLOM_CUDA_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING)
YAGLOM_CUDA_SAME(kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
YAGLOM_CUDA_SAME(kLaunchProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
#if CUDA_VERSION >= 11080
YAGLOM_CUDA_SAME(kInvalidClusterSize, CUDA_ERROR_INVALID_CLUSTER_SIZE)
#endif
#if CUDA_VERSION >= 12040
YAGLOM_CUDA_SAME(kNewerDriverNeeded, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)
#endif
#if CUDA_VERSION >= 12000
YAGLOM_CUDA_SAME(kProcAddressLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM)
static_assert(std::is_same_v<decltype(&::cuGetProcAddress_v2),
                             CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *)>);
#endif

/// The same number of parameters, each passed alike: pointers, and numbers of one size.
template <typename Ours, typename Theirs>
struct IsCompatible : std::false_type {};
template <typename R, typename... Ours, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct IsCompatible<Status (*)(Ours...), R (*)(Theirs...)>
    : std::bool_constant<sizeof(R) == sizeof(Status) &&
                         ((sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
                          ...)> {};

/// cuda.h defines each name as the newest function of that name. From 12000 on, what is fetched stays what it was then.
constexpr bool isSameSymbol(std::string_view ours, std::string_view theirs) {
  return ours == theirs || (ours == "cuEventElapsedTime" && theirs == "cuEventElapsedTime_v2");
}

#define YAGLOM_CUDA_TEXT(symbol) #symbol
// NOLINTBEGIN(bugprone-macro-parentheses): types have none
#define YAGLOM_CUDA_CHECK(name, exported, required, parameters)                                                        \
  static_assert(IsCompatible<Status(*) parameters, decltype(&::name)>::value, "the types of " exported);               \
  static_assert(isSameSymbol(exported, YAGLOM_CUDA_TEXT(name)), "the symbol of " exported);
#if CUDA_VERSION >= 12040 // cuFuncGetParamInfo and cuFuncLoad
YAGLOM_CUDA_FUNCTIONS(YAGLOM_CUDA_CHECK)
#endif
// NOLINTEND(bugprone-macro-parentheses)

} // namespace

} // namespace yaglom::cuda::abi
