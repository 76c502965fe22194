// A driver without a GPU, for tests: what a test sees and sets of the shared library that stands for libcuda.so.1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace yaglom::fakecuda {

struct FakeDevice {
  std::string name = "Fake H100";
  int major = 9;
  int minor = 0;
  int sharedOptIn = 232448;
};

struct FakeAllocation {
  size_t bytes = 0;
  int device = 0;
  unsigned type = 2; ///< CUmemorytype
  bool managed = false;
  std::shared_ptr<char[]> host = {}; ///< the memory, where the address is not that of the host
};

/// One launch as the driver got it. Device memory is host memory, so parameters can be read.
struct FakeLaunch {
  std::string function;
  unsigned grid[3] = {};
  unsigned block[3] = {};
  unsigned shared = 0;
  void *stream = nullptr;
  std::vector<int> attributes; ///< ids
  unsigned cluster[3] = {};
  std::vector<std::string> parameters; ///< bytes
};

/// The whole state of the fake driver. Set by one thread, before others use the driver.
struct State {
  int version = 12080;
  std::vector<FakeDevice> devices = {FakeDevice()};
  /// The next call of that name fails so: "cuMemAlloc" -> 2. Stays until it is erased.
  std::map<std::string, int> failures;
  bool namesErrors = true;         ///< cuGetErrorName answers
  bool hasProcAddressTable = true; ///< cuGetProcAddress_v2 finds functions
  std::map<void *, int> capturing; ///< by stream: CUstreamCaptureStatus
  std::map<uint64_t, FakeAllocation> memory;
  int functionAttributes[9] = {1024, 512, 16, 0, 40, 80, 90, 0, 49152}; ///< by CUfunction_attribute
  std::vector<size_t> parameterBytes = {8, 4};
  std::string infoLog = "ptxas info    : Used 40 registers";

  std::vector<std::string> calls; ///< names, in order; queries of errors left out
  std::vector<FakeLaunch> launches;
  std::vector<int> procAddressVersions; ///< of the calls of cuGetProcAddress_v2
  std::vector<uint64_t> procAddressFlags;
  std::string loadedImage;                                      ///< of the last cuModuleLoadDataEx
  std::map<std::string, int> functionSettings;                  ///< "function:attribute" -> value of cuFuncSetAttribute
  std::vector<std::string> findings;                            ///< of the emulator, where kernels are run
  std::map<void *, std::vector<std::function<int()>>> captured; ///< what a replay does, by stream
  int retained[8] = {};                                         ///< retains without a release, by device
  int modules = 0;                                              ///< that are loaded
  int streams = 0;
  int events = 0;
};

/// Exported by the library as "fakeCudaState".
using StateFunction = State *(*)();
/// Exported as "fakeCudaReset": everything as above.
using ResetFunction = void (*)();
/// Exported as "fakeCudaReplay" where kernels are run: does what was captured on a stream, as launching its graph would.
using ReplayFunction = int (*)(void *stream);

} // namespace yaglom::fakecuda
