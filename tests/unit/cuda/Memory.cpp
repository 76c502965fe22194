// Device memory, copies, pointers, streams and events.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/Fake.h"

#include <fmt/format.h>

#include <numeric>

using namespace yaglom;
using namespace yaglom::cuda;
using namespace yaglom::fakecuda;

TEST_CASE("memory is allocated in its context and freed at the end") {
  Fake fake;
  const Context context = fake.context();
  fake.calls();
  {
    const DeviceMemory memory = DeviceMemory::allocate(context, 1000).value();
    CHECK(memory.bytes() == 1000);
    CHECK(fake->memory.at(memory.address()).bytes == 1000);
  }
  CHECK(fake.calls() ==
        Calls{"cuCtxSetCurrent", "cuMemAlloc", "cuCtxSetCurrent", "cuCtxSetCurrent", "cuMemFree", "cuCtxSetCurrent"});
  CHECK(fake->memory.empty());
}

TEST_CASE("memory moves, and is freed once") {
  Fake fake;
  const Context context = fake.context();
  {
    DeviceMemory a = DeviceMemory::allocate(context, 100).value();
    DeviceMemory b = std::move(a);
    CHECK(a.address() == 0); // NOLINT(bugprone-use-after-move): it is empty
    a = DeviceMemory::allocate(context, 200).value();
    b = std::move(a);
    CHECK(b.bytes() == 200);
    CHECK(fake->memory.size() == 1);
  }
  CHECK(fake->memory.empty());
  CHECK(fake.count("cuMemFree") == 2);
}

TEST_CASE("no bytes need no memory, no pointer and no driver") {
  Fake fake;
  const Context context = fake.context();
  fake.calls();
  const DeviceMemory memory = DeviceMemory::allocate(context, 0).value();
  CHECK(memory.address() == 0);
  CHECK(copyToDevice(context, 0, nullptr, 0));
  CHECK(copyToHost(context, nullptr, 0, 0, nullptr));
  CHECK(copyOnDevice(context, 0, 0, 0, nullptr));
  CHECK(fill(context, 0, 1, 0));
  CHECK(fake.calls().empty());
}

TEST_CASE("full memory is told with what is free") {
  Fake fake;
  const Context context = fake.context();
  fake->failures["cuMemAlloc"] = 2;
  CHECK(said(DeviceMemory::allocate(context, 1 << 20)) ==
        "allocating 1048576 bytes on CUDA device 0 (1000 of 2000 are free): cuMemAlloc: FAKE_ERROR_2 (2): the driver's "
        "words; the GPU's "
        "memory is full: free memory, or use smaller tensors");
  fake->failures["cuMemAlloc"] = 700;
  CHECK(said(DeviceMemory::allocate(context, 8))
            .starts_with("allocating 8 bytes on CUDA device 0: cuMemAlloc: FAKE_ERROR_700"));
  CHECK(fake->memory.empty());
}

TEST_CASE("bytes come back as they went, with and without a stream") {
  Fake fake;
  const Context context = fake.context();
  const Stream own = Stream::create(context).value();
  for (const std::optional<StreamHandle> stream : {std::optional<StreamHandle>(), std::optional<StreamHandle>(nullptr),
                                                   std::optional<StreamHandle>(own.handle())}) {
    std::vector<uint8_t> in(300);
    std::vector<uint8_t> out(300);
    std::iota(in.begin(), in.end(), uint8_t(7));
    const DeviceMemory a = DeviceMemory::allocate(context, 300).value();
    const DeviceMemory b = DeviceMemory::allocate(context, 300).value();
    fake.calls();
    CHECK(fill(context, b.address(), 9, 300, stream));
    CHECK(copyToDevice(context, a.address(), in.data(), 300, stream));
    CHECK(copyOnDevice(context, b.address(), a.address(), 200, stream.value_or(nullptr)));
    CHECK(copyToHost(context, out.data(), b.address(), 300, stream));
    CHECK(std::equal(out.begin(), out.begin() + 200, in.begin()));
    CHECK(std::all_of(out.begin() + 200, out.end(), [](uint8_t byte) { return byte == 9; }));
    Calls calls = fake.calls();
    std::erase(calls, "cuCtxSetCurrent");
    CHECK(calls == (stream ? Calls{"cuMemsetD8Async", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync", "cuMemcpyDtoHAsync"}
                           : Calls{"cuMemsetD8", "cuMemcpyHtoD", "cuMemcpyDtoDAsync", "cuMemcpyDtoH"}));
  }
}

TEST_CASE("a copy that fails says which") {
  Fake fake;
  const Context context = fake.context();
  const DeviceMemory memory = DeviceMemory::allocate(context, 64).value();
  uint8_t host[64] = {};
  for (const char *call : {"cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpyDtoH", "cuMemcpyDtoHAsync",
                           "cuMemcpyDtoDAsync", "cuMemsetD8", "cuMemsetD8Async"})
    fake->failures[call] = 1;
  const auto tail = [](const char *call) {
    return fmt::format(" 64 bytes: {}: FAKE_ERROR_1 (1): the driver's words; an argument of the call is out of range",
                       call);
  };
  CHECK(said(copyToDevice(context, memory.address(), host, 64)) == "copying to the GPU" + tail("cuMemcpyHtoD"));
  CHECK(said(copyToDevice(context, memory.address(), host, 64, nullptr)) ==
        "copying to the GPU" + tail("cuMemcpyHtoDAsync"));
  CHECK(said(copyToHost(context, host, memory.address(), 64)) == "copying from the GPU" + tail("cuMemcpyDtoH"));
  CHECK(said(copyToHost(context, host, memory.address(), 64, nullptr)) ==
        "copying from the GPU" + tail("cuMemcpyDtoHAsync"));
  CHECK(said(copyOnDevice(context, 1, 2, 64, nullptr)) == "copying on the GPU" + tail("cuMemcpyDtoDAsync"));
  CHECK(said(fill(context, memory.address(), 0, 64)) == "filling" + tail("cuMemsetD8"));
  CHECK(said(fill(context, memory.address(), 0, 64, nullptr)) == "filling" + tail("cuMemsetD8Async"));
}

TEST_CASE("a pointer's memory is known") {
  Fake fake;
  fake->devices.resize(2);
  const DriverPointer driver = fake.driver();
  const Context zero = Context::retain(driver, 0).value();
  const Context one = Context::retain(driver, 1).value();
  alignas(256) char host[512] = {};
  const DeviceMemory memory = DeviceMemory::allocate(one, 256).value();
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto *inside = reinterpret_cast<const char *>(memory.address()) + 16;
  CHECK(pointerInfo(zero, inside).value().kind == PointerKind::Device);
  CHECK(pointerInfo(zero, inside).value().device == 1);
  CHECK(pointerInfo(zero, host).value().kind == PointerKind::Host);
  CHECK(pointerInfo(zero, nullptr).value().kind == PointerKind::Host);

  CHECK(checkDevicePointer(one, "K", inside));
  CHECK(said(checkDevicePointer(zero, "K", inside)) ==
        "argument 'K': expected memory of CUDA device 0, found memory of device 1");
  CHECK(said(checkDevicePointer(one, "Q", host)) ==
        "argument 'Q': expected memory of CUDA device 1, found host memory");
  CHECK(said(checkDevicePointer(one, "V", nullptr)) ==
        "argument 'V': expected memory of CUDA device 1, found a null pointer");
  CHECK(said(checkDevicePointer(one, "K", inside + 4)) ==
        fmt::format("argument 'K': expected an address that is a multiple of 16, found {}",
                    static_cast<const void *>(inside + 4)));
  CHECK(checkDevicePointer(one, "K", inside + 4, 4));

  fake->memory[reinterpret_cast<uint64_t>(host)] = {256, 0, 1, false};
  CHECK(said(checkDevicePointer(zero, "O", host)) ==
        "argument 'O': expected memory of CUDA device 0, found page-locked host memory");
  fake->memory[reinterpret_cast<uint64_t>(host)] = {256, 0, 2, true};
  CHECK(pointerInfo(one, host).value().kind == PointerKind::Managed);
  CHECK(checkDevicePointer(one, "O", host));

  fake->failures["cuPointerGetAttributes"] = 700;
  CHECK(said(checkDevicePointer(zero, "O", host)).find("argument 'O': asking for the memory at 0x") == 0);
}

TEST_CASE("streams and events live and die in their context") {
  Fake fake;
  const Context context = fake.context();
  {
    const Stream stream = Stream::create(context).value();
    const Event start = Event::create(context).value();
    const Event end = Event::create(context).value();
    fake.calls();
    CHECK(start.record(stream.handle()));
    CHECK(end.record(nullptr));
    CHECK(elapsedMilliseconds(start, end).value() == 1.5);
    CHECK(stream.synchronize());
    CHECK(synchronize(context, nullptr));
    Calls calls = fake.calls();
    std::erase(calls, "cuCtxSetCurrent");
    CHECK(calls == Calls{"cuEventRecord", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime",
                         "cuStreamSynchronize", "cuStreamSynchronize"});
    Stream moved = Stream::create(context).value();
    const Stream target = std::move(moved);
  }
  CHECK(fake->streams == 0);
  CHECK(fake->events == 0);
  CHECK(fake.count("cuStreamDestroy") == 2);
}

TEST_CASE("what fails in streams and events is named") {
  Fake fake;
  const Context context = fake.context();
  const Stream stream = Stream::create(context).value();
  const Event event = Event::create(context).value();
  for (const char *call :
       {"cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuStreamIsCapturing"})
    fake->failures[call] = 400;
  CHECK(said(Stream::create(context)).starts_with("cuStreamCreate: "));
  CHECK(said(Event::create(context)).starts_with("cuEventCreate: "));
  CHECK(said(event.record(stream.handle())).starts_with("cuEventRecord: "));
  CHECK(said(event.synchronize()).starts_with("cuEventSynchronize: "));
  CHECK(said(elapsedMilliseconds(event, event)).starts_with("cuEventSynchronize: "));
  CHECK(said(isCapturing(context, stream.handle())).starts_with("cuStreamIsCapturing: "));
  fake->failures = {{"cuEventElapsedTime", 400}};
  CHECK(said(elapsedMilliseconds(event, event)).starts_with("cuEventElapsedTime: "));
  fake->failures = {{"cuStreamSynchronize", 719}};
  CHECK(said(stream.synchronize()) ==
        "cuStreamSynchronize: FAKE_ERROR_719 (719): the driver's words; a kernel crashed; the context is "
        "lost: every later call in this process fails, restart it");
}

TEST_CASE("a capture is seen, broken or not, and from the default stream") {
  Fake fake;
  const Context context = fake.context();
  const Stream stream = Stream::create(context).value();
  const Stream other = Stream::create(context).value();
  CHECK(!isCapturing(context, stream.handle()).value());
  CHECK(!isCapturing(context, nullptr).value());
  fake->capturing[stream.handle()] = 1;
  CHECK(isCapturing(context, stream.handle()).value());
  CHECK(!isCapturing(context, other.handle()).value());
  CHECK(isCapturing(context, nullptr).value());
  fake->capturing[stream.handle()] = 2;
  CHECK(isCapturing(context, stream.handle()).value());
  CHECK(said(stream.synchronize()).find("is being captured into a graph") != std::string::npos);
}
