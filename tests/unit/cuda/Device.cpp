// Devices, their primary contexts, and which context is current.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/Fake.h"

#include <barrier>
#include <thread>

using namespace yaglom;
using namespace yaglom::cuda;
using namespace yaglom::fakecuda;

namespace {

abi::Context currentContext(const DriverPointer &driver) {
  abi::Context current = nullptr;
  CHECK(driver->api.cuCtxGetCurrent(&current) == 0);
  return current;
}

} // namespace

TEST_CASE("a device tells what it is and has") {
  Fake fake;
  const Device one = device(fake.driver(), 0).value();
  CHECK(one.ordinal == 0);
  CHECK(one.name == "Fake H100");
  CHECK(one.computeCapability == 90);
  CHECK(one.architecture() == "sm_90");
  CHECK(one.multiprocessors == 132);
  CHECK(one.warpSize == 32);
  CHECK(one.threadsPerBlock == 1024);
  CHECK(one.threadsPerMultiprocessor == 2048);
  CHECK(one.registersPerBlock == 65536);
  CHECK(one.registersPerMultiprocessor == 65537);
  CHECK(one.sharedBytesPerBlock == 49152);
  CHECK(one.sharedBytesPerBlockOptIn == 232448);
  CHECK(one.sharedBytesPerMultiprocessor == 233472);
  CHECK(one.l2Bytes == 50 << 20);
  CHECK(one.memoryBytes == size_t(80) << 30);
  CHECK(fake.count("cuDevicePrimaryCtxRetain") == 0);
}

TEST_CASE("all devices are listed by ordinal") {
  Fake fake;
  fake->devices = {{"A100", 8, 0, 166912}, {"RTX 5090", 12, 0, 101376}, {"B200", 10, 0, 232448}};
  const std::vector<Device> all = devices(fake.driver()).value();
  REQUIRE(all.size() == 3);
  CHECK(all[0].architecture() == "sm_80");
  CHECK(all[1].architecture() == "sm_120");
  CHECK(all[2].architecture() == "sm_100");
  CHECK(all[2].ordinal == 2);
  CHECK(all[1].name == "RTX 5090");
}

TEST_CASE("a machine without devices is no error, asking for one is") {
  Fake fake;
  fake->devices.clear();
  const DriverPointer driver = fake.driver();
  CHECK(deviceCount(driver).value() == 0);
  CHECK(devices(driver).value().empty());
  CHECK(said(device(driver, 0)) == "there is no CUDA device 0: the driver sees 0");
}

TEST_CASE("a device that does not exist is named with those that do") {
  Fake fake;
  fake->devices.resize(4);
  const DriverPointer driver = fake.driver();
  CHECK(said(device(driver, 4)) == "there is no CUDA device 4: the driver sees 4, numbered from 0 to 3");
  CHECK(said(Context::retain(driver, -1)) == "there is no CUDA device -1: the driver sees 4, numbered from 0 to 3");
}

TEST_CASE("calls that fail while a device is asked are named") {
  Fake fake;
  const DriverPointer driver = fake.driver();
  for (const char *call :
       {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem", "cuDeviceGetAttribute"}) {
    fake->failures = {{call, 999}};
    CHECK(said(devices(driver)).find(call) != std::string::npos);
  }
  CHECK(said(device(driver, 0)) ==
        "CUDA device 0: cuDeviceGetAttribute(75): FAKE_ERROR_999 (999): the driver's words; the driver does "
        "not say why: see the system's log (dmesg)");
}

TEST_CASE("the primary context is retained once a device, and released with its last user") {
  Fake fake;
  fake->devices.resize(2);
  const DriverPointer driver = fake.driver();
  std::optional<Context> first = Context::retain(driver, 0).value();
  std::optional<Context> again = Context::retain(driver, 0).value();
  std::optional<Context> other = Context::retain(driver, 1).value();
  CHECK(first->handle() == again->handle());
  CHECK(first->handle() != other->handle());
  CHECK(fake.count("cuDevicePrimaryCtxRetain") == 2);

  std::optional<DeviceMemory> memory = DeviceMemory::allocate(*first, 64).value();
  first.reset();
  again.reset();
  CHECK(fake->retained[0] == 1); // the memory needs it
  memory.reset();
  CHECK(fake->retained[0] == 0);
  CHECK(fake->memory.empty());
  CHECK(fake->retained[1] == 1);
  other.reset();
  CHECK(fake.count("cuDevicePrimaryCtxRelease") == 2);

  other = Context::retain(driver, 1).value();
  CHECK(fake.count("cuDevicePrimaryCtxRetain") == 3);
}

TEST_CASE("threads that retain a context at once share it") {
  Fake fake;
  const DriverPointer driver = fake.driver();
  std::vector<std::optional<Context>> contexts(32);
  std::barrier start(32);
  std::vector<std::jthread> threads;
  threads.reserve(32);
  for (std::size_t i = 0; i < contexts.size(); ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      contexts[i] = Context::retain(driver, 0).value();
    });
  threads.clear();
  CHECK(fake.count("cuDevicePrimaryCtxRetain") == 1);
  contexts.clear();
  CHECK(fake.count("cuDevicePrimaryCtxRelease") == 1);
}

TEST_CASE("a context that cannot be retained is an error, and is not released") {
  Fake fake;
  fake->failures["cuDevicePrimaryCtxRetain"] = 46;
  const DriverPointer driver = fake.driver();
  CHECK(said(Context::retain(driver, 0)) ==
        "CUDA device 0 (Fake H100): cuDevicePrimaryCtxRetain: FAKE_ERROR_46 (46): the driver's "
        "words; another process holds the GPU: see its compute mode in nvidia-smi");
  CHECK(fake.count("cuDevicePrimaryCtxRelease") == 0);
  fake->failures.clear();
  CHECK(Context::retain(driver, 0));
}

TEST_CASE("a scope makes its context current, and the former one afterwards") {
  Fake fake;
  fake->devices.resize(2);
  const DriverPointer driver = fake.driver();
  const Context zero = Context::retain(driver, 0).value();
  const Context one = Context::retain(driver, 1).value();
  CHECK(currentContext(driver) == nullptr);
  {
    const ContextScope outer = ContextScope::enter(zero).value();
    CHECK(currentContext(driver) == zero.handle());
    {
      const ContextScope inner = ContextScope::enter(one).value();
      CHECK(currentContext(driver) == one.handle());
    }
    CHECK(currentContext(driver) == zero.handle());
  }
  CHECK(currentContext(driver) == nullptr);
}

TEST_CASE("a scope of the context that is current sets nothing") {
  Fake fake;
  const Context context = fake.context();
  const ContextScope outer = ContextScope::enter(context).value();
  fake.calls();
  {
    const ContextScope inner = ContextScope::enter(context).value();
  }
  CHECK(fake.calls().empty());
  CHECK(currentContext(context.driver()) == context.handle());
}

TEST_CASE("no context is ever made or destroyed") {
  std::string names;
#define YAGLOM_NAME(name, exported, required, parameters) names += exported " ";
  YAGLOM_CUDA_FUNCTIONS(YAGLOM_NAME)
#undef YAGLOM_NAME
  CHECK(names.find("cuCtxCreate") == std::string::npos);
  CHECK(names.find("cuCtxDestroy") == std::string::npos);
  CHECK(names.find("cuDevicePrimaryCtxReset") == std::string::npos);
}

TEST_CASE("a scope that cannot be entered is an error") {
  Fake fake;
  const Context context = fake.context();
  fake->failures["cuCtxGetCurrent"] = 4;
  CHECK(said(ContextScope::enter(context)) ==
        "cuCtxGetCurrent: FAKE_ERROR_4 (4): the driver's words; the driver has shut down: the process is ending");
  fake->failures = {{"cuCtxSetCurrent", 201}};
  CHECK(said(ContextScope::enter(context)) ==
        "cuCtxSetCurrent: FAKE_ERROR_201 (201): the driver's words; no context of the GPU is current: was it reset?");
}
