// The example of docs/cuda.md, compiled and run.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/Fake.h"

#include <fstream>
#include <iterator>

using namespace yaglom;
using namespace yaglom::fakecuda;

namespace {

// clang-format off
// begin of the example
Result<void> attend(const cuda::DriverPointer &driver, std::string_view ptx, const std::vector<float> &q) {
  using namespace yaglom::cuda;
  Context context = Context::retain(driver, 0).value();
  Stream stream = Stream::create(context).value();

  // Once: everything slow, and everything that must not happen while a stream is being captured.
  Function function = prepare(context, ptx, "attend", {.dynamicSharedBytes = 100'000}, stream.handle()).value();
  DeviceMemory memory = DeviceMemory::allocate(context, q.size() * sizeof(float)).value();
  copyToDevice(context, memory.address(), q.data(), memory.bytes()).value();

  // As often as wanted: one call of the driver.
  const DevicePointer address = memory.address();
  const auto count = static_cast<uint32_t>(q.size());
  const Parameter parameters[] = {Parameter::of(address), Parameter::of(count)};
  auto launched = launch(function,
                         {.grid = {8}, .block = {128}, .dynamicSharedBytes = 100'000, .stream = stream.handle()},
                         parameters);
  if (!launched)
    return launched.error(); // "launching 'attend': expected a grid of ..."
  return stream.synchronize();
}
// end of the example
// clang-format on

std::string read(const char *path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

} // namespace

TEST_CASE("the example of docs/cuda.md runs") {
  Fake fake;
  CHECK(attend(fake.driver(), kPtx, std::vector<float>(64)));
  CHECK(fake->launches.size() == 1);
  CHECK(fake->retained[0] == 0);
}

TEST_CASE("docs/cuda.md shows its example as it is compiled here") {
  const std::string source = read(YAGLOM_SOURCE_DIR "/tests/unit/cuda/Example.cpp");
  const std::string begin = "// begin of the example\n";
  const size_t start = source.find(begin) + begin.size();
  const std::string example = source.substr(start, source.find("// end of the example") - start);
  CHECK(read(YAGLOM_SOURCE_DIR "/docs/cuda.md").find("```c++\n" + example + "```\n") != std::string::npos);
}
