// What the driver's error numbers mean for a user of yaglom.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace yaglom::cuda {

namespace {

struct Meaning {
  abi::Status status;
  const char *name; ///< for a driver that does not tell
  const char *text;
};

constexpr const char *kLost = "the context is lost: every later call in this process fails, restart it";
constexpr const char *kCapture =
    "the stream is being captured into a graph, which allows launches and asynchronous copies "
    "alone: prepare() the kernel before capturing";

constexpr Meaning kMeanings[] = {
    {abi::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "an argument of the call is out of range"},
    {abi::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "the GPU's memory is full: free memory, or use smaller tensors"},
    {abi::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "was this process forked after CUDA had been used?"},
    {abi::kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "the driver has shut down: the process is ending"},
    {abi::kStubLibrary, "CUDA_ERROR_STUB_LIBRARY", "the library is the CUDA toolkit's stub: there is no driver"},
    {abi::kNewerDriverNeeded, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "update NVIDIA's driver"},
    {abi::kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "another process holds the GPU: see its compute mode in nvidia-smi"},
    {abi::kNoDevice, "CUDA_ERROR_NO_DEVICE", "the driver sees no GPU: see nvidia-smi, and CUDA_VISIBLE_DEVICES"},
    {abi::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "there is no GPU of that number: see CUDA_VISIBLE_DEVICES"},
    {abi::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "this is neither PTX nor a cubin"},
    {abi::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "no context of the GPU is current: was it reset?"},
    {abi::kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "the code is for another GPU architecture: compile it for this one"},
    {abi::kEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "the GPU's memory failed"},
    {abi::kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "the driver's assembler refuses the PTX"},
    {abi::kNvlinkUncorrectable, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "a link between GPUs failed"},
    {abi::kJitCompilerNotFound, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
     "the driver cannot assemble PTX, its libnvidia-ptxjitcompiler.so.1 is missing: install it, or ptxas"},
    {abi::kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the driver is older than the PTX's .version: update NVIDIA's driver, or compile for a lower PTX version"},
    {abi::kJitCompilationDisabled, "CUDA_ERROR_JIT_COMPILATION_DISABLED",
     "the environment forbids the driver to assemble PTX (CUDA_DISABLE_PTX_JIT): unset it, or install ptxas"},
    {abi::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE",
     "a stream, event or kernel was destroyed, or belongs to another GPU"},
    {abi::kNotFound, "CUDA_ERROR_NOT_FOUND", "there is nothing of that name"},
    {abi::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel touched memory that is not its own"},
    {abi::kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "a block needs more registers, threads or shared memory than a multiprocessor has: use a smaller block or tile"},
    {abi::kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran longer than a GPU with a display allows"},
    {abi::kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the GPU was reset while it was in use"},
    {abi::kAssert, "CUDA_ERROR_ASSERT", "an assertion in a kernel failed"},
    {abi::kHardwareStackError, "CUDA_ERROR_HARDWARE_STACK_ERROR", "a kernel's stack is damaged or too small"},
    {abi::kIllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "a kernel met an instruction that the GPU does not know"},
    {abi::kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS",
     "a kernel touched memory at an address that is not a multiple of what it reads: check the tensors' alignment"},
    {abi::kInvalidAddressSpace, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "a kernel touched the wrong kind of memory"},
    {abi::kInvalidPc, "CUDA_ERROR_INVALID_PC", "a kernel jumped out of its code"},
    {abi::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel crashed"},
    {abi::kCooperativeLaunchTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "the grid does not fit on the GPU at once"},
    {abi::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "the call is not allowed here"},
    {abi::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "this GPU, or its virtual part, does not offer it"},
    {abi::kSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY", "is nvidia-fabricmanager running?"},
    {abi::kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "the kernel's part of the driver and libcuda.so.1 differ: was it updated without a restart?"},
    {abi::kCompatNotSupportedOnDevice, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "this GPU does not work with CUDA's compatibility package: use the driver's own libcuda.so.1"},
    {abi::kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", kCapture},
    {abi::kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "an earlier call broke the capture of this stream into a graph: end it, and capture again"},
    {abi::kStreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "a captured stream would depend on work outside of the capture: record the event within it"},
    {abi::kStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the default stream cannot be used while another one is being captured into a graph: use the captured stream"},
    {abi::kStreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "the capture into a graph was begun by another thread"},
    {abi::kInvalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "the GPU does not take a cluster of that size"},
    {abi::kUnknown, "CUDA_ERROR_UNKNOWN", "the driver does not say why: see the system's log (dmesg)"},
};

const Meaning *meaningOf(abi::Status status) {
  const auto *found = std::find_if(std::begin(kMeanings), std::end(kMeanings),
                                   [&](const Meaning &meaning) { return meaning.status == status; });
  return found == std::end(kMeanings) ? nullptr : found;
}

} // namespace

bool losesContext(abi::Status status) {
  switch (status) {
  case abi::kEccUncorrectable:
  case abi::kNvlinkUncorrectable:
  case abi::kIllegalAddress:
  case abi::kLaunchTimeout:
  case abi::kContextIsDestroyed:
  case abi::kAssert:
  case abi::kHardwareStackError:
  case abi::kIllegalInstruction:
  case abi::kMisalignedAddress:
  case abi::kInvalidAddressSpace:
  case abi::kInvalidPc:
  case abi::kLaunchFailed:
    return true;
  default:
    return false;
  }
}

Error Driver::error(abi::Status status, std::string_view call, std::string_view subject) const {
  const Meaning *meaning = meaningOf(status);
  const char *name = nullptr; // stays null for a number that the driver does not know, and always in the toolkit's stub
  const char *text = nullptr;
  if (api.cuGetErrorName && api.cuGetErrorString) {
    api.cuGetErrorName(status, &name);
    api.cuGetErrorString(status, &text);
  }
  if (!name)
    name = meaning ? meaning->name : "error";
  std::string message = subject.empty() ? std::string() : fmt::format("{}: ", subject);
  message += fmt::format("{}: {} ({})", call, name, status);
  if (text)
    message += fmt::format(": {}", text);
  if (meaning)
    message += fmt::format("{} {}", text ? ";" : ":", meaning->text);
  if (losesContext(status))
    message += fmt::format("; {}", kLost);
  return Error(message);
}

} // namespace yaglom::cuda
