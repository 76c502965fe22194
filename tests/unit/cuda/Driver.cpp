// Finding and loading the driver: absent, stub, old, incomplete, from many threads, after a fork.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/Fake.h"

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace yaglom;
using namespace yaglom::cuda;
using namespace yaglom::fakecuda;

TEST_CASE("sixty-four threads that ask for the driver load it once") {
  Fake fake;
  setenv("YAGLOM_LIBCUDA", fake.path, 1);
  std::vector<const Driver *> found(64);
  std::barrier start(64);
  std::vector<std::jthread> threads;
  threads.reserve(64);
  for (std::size_t i = 0; i < 64; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      if (const Result<DriverPointer> driver = Driver::shared())
        found[i] = driver->get();
    });
  threads.clear();
  CHECK(found[0] != nullptr);
  CHECK(std::all_of(found.begin(), found.end(), [&](const Driver *driver) { return driver == found[0]; }));
  CHECK(fake.count("cuInit") == 1);
  CHECK(fake.calls() == Calls{"cuInit", "cuDriverGetVersion"});

  SECTION("and a forked process is told that it cannot have it") {
    const std::string expected =
        "this process was forked after CUDA had been used, and the driver does not survive fork(): start "
        "workers by exec (Python: the 'spawn' start method), or use CUDA in the workers only";
    const DriverPointer driver = Driver::shared().value();
    const pid_t child = fork();
    if (child == 0)
      _exit(said(Driver::shared()) == expected && said(Context::retain(driver, 0)) == expected ? 7 : 1);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 7);
    CHECK(Driver::shared());
  }
}

TEST_CASE("objects that a forked process inherits make no call there") {
  Fake fake;
  std::optional<Context> context = fake.context();
  std::optional<DeviceMemory> memory = DeviceMemory::allocate(*context, 64).value();
  std::optional<Stream> stream = Stream::create(*context).value();
  fake.calls();
  const pid_t child = fork();
  if (child == 0) {
    stream.reset();
    memory.reset();
    context.reset();
    _exit(fake->calls.empty() ? 7 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("nothing of the driver is called before it is opened") {
  Fake fake;
  CHECK(fake->calls.empty());
  CHECK(fake->procAddressVersions.empty());
}

TEST_CASE("functions are asked of the driver's own table, at version 12.0, with the legacy default stream") {
  Fake fake;
  const DriverPointer driver = fake.driver();
  CHECK(driver->version() == 12080);
  CHECK(fake->procAddressVersions.size() > 40);
  CHECK(std::all_of(fake->procAddressVersions.begin(), fake->procAddressVersions.end(),
                    [](int v) { return v == 12000; }));
  CHECK(std::all_of(fake->procAddressFlags.begin(), fake->procAddressFlags.end(), [](uint64_t f) { return f == 1; }));
  CHECK(driver->api.cuLaunchKernelEx);
  CHECK(driver->api.cuFuncGetParamInfo); // newer than 12.0: by its symbol
}

TEST_CASE("functions that the driver's table does not give are taken by the symbol of the right version") {
  Fake fake;
  fake->hasProcAddressTable = false;
  const Context context = fake.context();
  CHECK(context.device().memoryBytes == size_t(80) << 30);
  const DeviceMemory memory = DeviceMemory::allocate(context, 16).value();
  CHECK(copyToDevice(context, memory.address(), "0123456789abcdef", 16));
  CHECK(Stream::create(context));
  CHECK(Event::create(context));
  CHECK(std::none_of(fake->calls.begin(), fake->calls.end(),
                     [](const std::string &call) { return call.starts_with("old"); }));
}

TEST_CASE("a driver of CUDA 11.4 works without the functions that came later") {
  Fake fake(YAGLOM_FAKE_CUDA_OLD);
  fake->version = 11040;
  const DriverPointer driver = fake.driver();
  CHECK(driver->version() == 11040);
  CHECK(!driver->api.cuLaunchKernelEx);
  CHECK(!driver->api.cuFuncLoad);
  CHECK(!driver->api.cuFuncGetParamInfo);
  CHECK(fake.context().device().multiprocessors == 132);
}

TEST_CASE("a driver that lacks a function is refused by that name") {
  Fake fake(YAGLOM_FAKE_CUDA_BROKEN);
  CHECK(said(fake.open()) == std::string("no usable CUDA driver: ") + fake.path +
                                 " has no function cuStreamIsCapturing; yaglom needs a driver of CUDA 11.0 or newer");
  CHECK(fake->calls.empty());
}

TEST_CASE("a driver older than CUDA 11 is refused") {
  Fake fake;
  fake->version = 10020;
  CHECK(said(fake.open()) == std::string("the CUDA driver ") + fake.path +
                                 " is of CUDA 10.2; yaglom needs 11.0 or newer: update NVIDIA's driver");
}

TEST_CASE("an absent library is no driver") {
  CHECK(said(Driver::open("/nonexistent/libcuda.so.1")) ==
        "no CUDA driver: /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory; install "
        "NVIDIA's "
        "driver (the CUDA toolkit does not contain it), or give the container its GPUs");
}

TEST_CASE("a library that is none is no driver") {
  const std::string error = said(Driver::open(YAGLOM_SOURCE_DIR "/README.md"));
  CHECK(error.starts_with("no CUDA driver: "));
  CHECK(error.find("invalid ELF header") != std::string::npos);
}

TEST_CASE("a driver that answers as the stub does is no driver") {
  Fake fake;
  fake->failures["cuInit"] = 34;
  fake->namesErrors = false;
  CHECK(said(fake.open()) ==
        std::string("no CUDA driver: ") + fake.path +
            " is the stub that the CUDA toolkit links programs with (error 34); install NVIDIA's driver (the "
            "CUDA toolkit does not contain it), or give the container its GPUs");
}

TEST_CASE("the toolkit's stub is no driver") {
  const std::string stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) {
    WARN("there is no CUDA toolkit here");
    return;
  }
  CHECK(said(Driver::open(stub)).starts_with("no CUDA driver: " + stub + " is the stub"));
}

TEST_CASE("a driver without a GPU says so") {
  Fake fake;
  fake->failures["cuInit"] = 100;
  CHECK(said(fake.open()) == std::string(fake.path) +
                                 ": cuInit: FAKE_ERROR_100 (100): the driver's words; the driver sees no GPU: "
                                 "see nvidia-smi, and CUDA_VISIBLE_DEVICES");
}

TEST_CASE("a version that cannot be asked is an error") {
  Fake fake;
  fake->failures["cuDriverGetVersion"] = 3;
  CHECK(said(fake.open()) == std::string(fake.path) +
                                 ": cuDriverGetVersion: FAKE_ERROR_3 (3): the driver's words; was this process "
                                 "forked after CUDA had been used?");
}
