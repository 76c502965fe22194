// Finds libcuda.so.1 and its functions, and initialises it.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Driver.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>

namespace yaglom::cuda {

namespace {

constexpr int kOldestVersion = 11000;
constexpr const char *kInstall =
    "install NVIDIA's driver (the CUDA toolkit does not contain it), or give the container its GPUs";

/// Counts the forks that lie between the process that loaded a driver and this one.
std::atomic<unsigned> forks = 0;

void watchForks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { ++forks; }); });
}

/// One function by name. libcuda's table is asked first: it alone knows which of several versions of a function is
/// meant.
void *find(void *library, abi::GetProcAddress getProcAddress, const char *name, const char *exported) {
  void *function = nullptr;
  int found = 0;
  if (getProcAddress &&
      getProcAddress(name, &function, abi::kCudaVersion, abi::kProcAddressLegacyStream, &found) == abi::kSuccess &&
      function)
    return function;
  return dlsym(library, exported);
}

/// Fills `api`; the name of a missing function, or null.
const char *fetch(void *library, abi::Functions &api) {
  const auto getProcAddress = reinterpret_cast<abi::GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  const char *missing = nullptr;
  const auto get = [&](auto &function, const char *name, const char *exported, bool required) {
    void *address = find(library, getProcAddress, name, exported);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    if (!address && required && !missing)
      missing = exported;
  };
#define YAGLOM_CUDA_FETCH(name, exported, required, parameters) get(api.name, #name, exported, required);
  YAGLOM_CUDA_FUNCTIONS(YAGLOM_CUDA_FETCH)
#undef YAGLOM_CUDA_FETCH
  return missing;
}

} // namespace

Driver::Driver() : forksBefore(forks) {}

bool Driver::isForked() const { return forksBefore != forks.load(std::memory_order_relaxed); }

Error Driver::forkedError() {
  return Error(
      "this process was forked after CUDA had been used, and the driver does not survive fork(): start workers "
      "by exec (Python: the 'spawn' start method), or use CUDA in the workers only");
}

Result<DriverPointer> Driver::open(const std::string &path) {
  watchForks();
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Error(fmt::format("no CUDA driver: {}; {}", dlerror(), kInstall));
  const auto driver = std::make_shared<Driver>();
  if (const char *missing = fetch(library, driver->api))
    return Error(fmt::format(
        "no usable CUDA driver: {} has no function {}; yaglom needs a driver of CUDA 11.0 or newer", path, missing));

  const abi::Status status = driver->api.cuInit(0);
  if (status == abi::kStubLibrary)
    return Error(fmt::format("no CUDA driver: {} is the stub that the CUDA toolkit links programs with (error 34); {}",
                             path, kInstall));
  if (auto done = driver->check(status, "cuInit", path); !done)
    return done.error();
  if (auto done = driver->check(driver->api.cuDriverGetVersion(&driver->driverVersion), "cuDriverGetVersion", path);
      !done)
    return done.error();
  if (driver->driverVersion < kOldestVersion)
    return Error(fmt::format("the CUDA driver {} is of CUDA {}; yaglom needs 11.0 or newer: update NVIDIA's driver",
                             path, versionText(driver->driverVersion)));
  return DriverPointer(driver);
}

Result<DriverPointer> Driver::shared() {
  static const Result<DriverPointer> driver = [] {
    const char *path = std::getenv("YAGLOM_LIBCUDA");
    return open(path && *path ? path : "libcuda.so.1");
  }();
  if (driver && (*driver)->isForked())
    return forkedError();
  return driver;
}

Result<void> Driver::check(abi::Status status, std::string_view call, std::string_view subject) const {
  if (status == abi::kSuccess)
    return {};
  return error(status, call, subject);
}

std::string versionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

} // namespace yaglom::cuda
