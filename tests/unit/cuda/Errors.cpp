// The driver's error numbers in words.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/Fake.h"

using namespace yaglom;
using namespace yaglom::cuda;
using namespace yaglom::fakecuda;

TEST_CASE("an error says what was done, the call, the driver's name, number and words, and what it means") {
  Fake fake;
  const DriverPointer driver = fake.driver();
  CHECK(driver->check(0, "cuInit"));
  CHECK(said(driver->check(218, "cuModuleLoadDataEx", "loading PTX")) ==
        "loading PTX: cuModuleLoadDataEx: FAKE_ERROR_218 (218): the driver's words; the driver's assembler refuses the "
        "PTX");
  CHECK(said(driver->check(4711, "cuMemFree")) == "cuMemFree: FAKE_ERROR_4711 (4711): the driver's words");
}

TEST_CASE("an error that the driver does not name is named all the same") {
  Fake fake;
  const DriverPointer driver = fake.driver();
  fake->namesErrors = false;
  const auto says = [&](int status) { return said(driver->check(status, "call")); };
  CHECK(says(2) == "call: CUDA_ERROR_OUT_OF_MEMORY (2): the GPU's memory is full: free memory, or use smaller tensors");
  CHECK(says(34) == "call: CUDA_ERROR_STUB_LIBRARY (34): the library is the CUDA toolkit's stub: there is no driver");
  CHECK(says(200) == "call: CUDA_ERROR_INVALID_IMAGE (200): this is neither PTX nor a cubin");
  CHECK(says(209) ==
        "call: CUDA_ERROR_NO_BINARY_FOR_GPU (209): the code is for another GPU architecture: compile it for this one");
  CHECK(says(218) == "call: CUDA_ERROR_INVALID_PTX (218): the driver's assembler refuses the PTX");
  CHECK(says(221) == "call: CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221): the driver cannot assemble PTX, its "
                     "libnvidia-ptxjitcompiler.so.1 is missing: install it, or ptxas");
  CHECK(says(222) ==
        "call: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): the driver is older than the PTX's .version: update NVIDIA's "
        "driver, or compile for a lower PTX version");
  CHECK(says(400) ==
        "call: CUDA_ERROR_INVALID_HANDLE (400): a stream, event or kernel was destroyed, or belongs to another GPU");
  CHECK(
      says(700) ==
      "call: CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel touched memory that is not its own; the context is lost: every "
      "later call in this process fails, restart it");
  CHECK(says(701) ==
        "call: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): a block needs more registers, threads or shared memory than a "
        "multiprocessor has: use a smaller block or tile");
  CHECK(
      says(803) ==
      "call: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): the kernel's part of the driver and libcuda.so.1 differ: was it "
      "updated without a restart?");
  CHECK(says(900) ==
        "call: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): the stream is being captured into a graph, which allows "
        "launches and asynchronous copies alone: prepare() the kernel before capturing");
  CHECK(says(901) == "call: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901): an earlier call broke the capture of this "
                     "stream into a graph: "
                     "end it, and capture again");
  CHECK(says(906) ==
        "call: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906): the default stream cannot be used while another one is being "
        "captured into a graph: use the captured stream");
  CHECK(says(4711) == "call: error (4711)");
}

TEST_CASE("errors after which nothing works say that the context is lost, and no others do") {
  Fake fake;
  const DriverPointer driver = fake.driver();
  std::vector<int> lost;
  for (int status = 1; status < 1000; ++status) {
    const bool says = said(driver->check(status, "call")).find("the context is lost") != std::string::npos;
    CHECK(says == losesContext(status));
    if (says)
      lost.push_back(status);
  }
  CHECK(lost == std::vector<int>{214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719});
}
