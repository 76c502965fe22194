// Launches: what reaches the driver, what is refused, and what a launch must not do.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/Fake.h"

#include <thread>

using namespace yaglom;
using namespace yaglom::cuda;
using namespace yaglom::fakecuda;

namespace {

constexpr uint64_t kPointer = 0x1122334455667788;
constexpr uint32_t kCount = 99;
constexpr Parameter kParameters[] = {Parameter::of(kPointer), Parameter::of(kCount)};

std::string bytes(const Parameter &parameter) { return {static_cast<const char *>(parameter.data), parameter.bytes}; }

std::string launchError(const Function &function, const LaunchConfig &config) {
  return said(launch(function, config, kParameters));
}

} // namespace

TEST_CASE("a launch reaches the driver as it was meant") {
  Fake fake;
  const Function function = prepare(fake.context(), kPtx, "attend", {.dynamicSharedBytes = 4096}).value();
  auto *const stream = reinterpret_cast<StreamHandle>(uintptr_t(0x77)); // NOLINT(performance-no-int-to-ptr)
  CHECK(launch(function, {.grid = {100000, 3, 2}, .block = {64, 2, 2}, .dynamicSharedBytes = 2048, .stream = stream},
               kParameters));
  REQUIRE(fake->launches.size() == 1);
  const FakeLaunch &seen = fake->launches[0];
  CHECK(seen.function == "attend");
  CHECK((seen.grid[0] == 100000 && seen.grid[1] == 3 && seen.grid[2] == 2));
  CHECK((seen.block[0] == 64 && seen.block[1] == 2 && seen.block[2] == 2));
  CHECK(seen.shared == 2048);
  CHECK(seen.stream == stream);
  CHECK(seen.attributes.empty());
  CHECK(seen.parameters == std::vector<std::string>{bytes(kParameters[0]), bytes(kParameters[1])});
}

TEST_CASE("a launch makes one call of the driver besides setting its context") {
  Fake fake;
  const Context context = fake.context();
  const Function function = prepare(context, kPtx, "attend").value();
  fake.calls();
  CHECK(launch(function, {.grid = {8}, .block = {128}}, kParameters));
  CHECK(fake.calls() == Calls{"cuCtxSetCurrent", "cuLaunchKernelEx", "cuCtxSetCurrent"});
  const ContextScope scope = ContextScope::enter(context).value();
  fake.calls();
  CHECK(launch(function, {.grid = {8}, .block = {128}}, kParameters));
  CHECK(fake.calls() == Calls{"cuLaunchKernelEx"});
}

TEST_CASE("the default stream is passed on as it is") {
  Fake fake;
  const Function function = prepare(fake.context(), kPtx, "attend").value();
  CHECK(launch(function, {}, kParameters));
  CHECK(fake->launches[0].stream == nullptr);
  CHECK(fake->launches[0].grid[0] == 1);
}

TEST_CASE("a prepared function is launched while its stream is being captured, which stays whole") {
  Fake fake;
  const Context context = fake.context();
  const Stream stream = Stream::create(context).value();
  const Function function = prepare(context, kPtx, "attend", {.dynamicSharedBytes = 100000}, stream.handle()).value();
  fake->capturing[stream.handle()] = 1;
  CHECK(launch(function, {.block = {32}, .dynamicSharedBytes = 100000, .stream = stream.handle()}, kParameters));
  CHECK(fake->capturing[stream.handle()] == 1);
}

TEST_CASE("a driver without cuLaunchKernelEx launches by cuLaunchKernel") {
  Fake fake(YAGLOM_FAKE_CUDA_OLD);
  const Function function = prepare(fake.context(), kPtx, "attend", {.dynamicSharedBytes = 4096}).value();
  CHECK(!function.parameterBytes());
  fake.calls();
  CHECK(launch(function, {.grid = {5, 6, 7}, .block = {8, 4, 2}, .dynamicSharedBytes = 16}, kParameters));
  CHECK(fake.calls() == Calls{"cuCtxSetCurrent", "cuLaunchKernel", "cuCtxSetCurrent"});
  const FakeLaunch &seen = fake->launches.at(0);
  CHECK((seen.grid[0] == 5 && seen.grid[1] == 6 && seen.grid[2] == 7));
  CHECK((seen.block[0] == 8 && seen.block[1] == 4 && seen.block[2] == 2));
  CHECK(seen.shared == 16);
  fake->failures["cuLaunchKernel"] = 701;
  CHECK(launchError(function, {}).starts_with("launching 'attend': cuLaunchKernel: FAKE_ERROR_701 (701)"));
  CHECK(launchError(function, {.programmatic = true}) == "launching 'attend': clusters and programmatic launches need "
                                                         "a driver of CUDA 11.8 or newer; this one is of 12.8");
}

TEST_CASE("the grid's limits are the GPU's, y and z below x") {
  Fake fake;
  const Function function = prepare(fake.context(), kPtx, "attend").value();
  CHECK(launch(function, {.grid = {0x7fffffff, 65535, 65535}}, kParameters));
  CHECK(fake->launches[0].grid[0] == 0x7fffffff);
  const auto error = [&](const Extent &grid) { return launchError(function, {.grid = grid}); };
  CHECK(error({0x80000000u, 1, 1}) ==
        "launching 'attend': expected a grid of 1 to 2147483647 blocks in x and 1 to 65535 in y and z, found "
        "(2147483648, 1, 1)");
  CHECK(error({1, 65536, 1}) ==
        "launching 'attend': expected a grid of 1 to 2147483647 blocks in x and 1 to 65535 in y and z, found (1, "
        "65536, 1)");
  CHECK(error({1, 1, 65536}).ends_with("found (1, 1, 65536)"));
  CHECK(error({0, 1, 1}).ends_with("found (0, 1, 1)"));
  CHECK(error({uint64_t(1) << 32, 1, 1}).ends_with("found (4294967296, 1, 1)"));
  CHECK(fake->launches.size() == 1);
}

TEST_CASE("the block's limits are the function's") {
  Fake fake;
  fake->functionAttributes[0] = 256;
  const Function function = prepare(fake.context(), kPtx, "attend").value();
  const auto error = [&](const Extent &block) { return launchError(function, {.block = block}); };
  CHECK(launch(function, {.block = {16, 4, 4}}, kParameters));
  CHECK(error({257, 1, 1}) == "launching 'attend': expected a block of 1 to 256 threads, found (257, 1, 1)");
  CHECK(error({1, 1, 65}).ends_with("found (1, 1, 65)"));
  CHECK(error({0, 1, 1}).ends_with("found (0, 1, 1)"));
  CHECK(error({UINT64_MAX, UINT64_MAX, 1}).find("expected a block") != std::string::npos);
}

TEST_CASE("more shared memory than was prepared is refused") {
  Fake fake;
  const Function function = prepare(fake.context(), kPtx, "attend", {.dynamicSharedBytes = 1000}).value();
  CHECK(launchError(function, {.dynamicSharedBytes = 1001}) ==
        "launching 'attend': expected at most 1000 bytes of dynamic shared memory, for which it was prepared, found "
        "1001");
}

TEST_CASE("clusters and programmatic launches reach the driver from sm_90 on") {
  Fake fake;
  fake->devices = {{"H100", 9, 0, 232448}, {"A100", 8, 0, 166912}};
  const DriverPointer driver = fake.driver();
  const Function hopper = prepare(Context::retain(driver, 0).value(), kPtx, "attend").value();
  CHECK(launch(hopper, {.grid = {8, 4, 1}, .cluster = {4, 2, 1}, .programmatic = true}, kParameters));
  CHECK(fake->launches[0].attributes == std::vector<int>{4, 6});
  CHECK((fake->launches[0].cluster[0] == 4 && fake->launches[0].cluster[1] == 2 && fake->launches[0].cluster[2] == 1));
  CHECK(launch(hopper, {.programmatic = true}, kParameters));
  CHECK(fake->launches[1].attributes == std::vector<int>{6});

  CHECK(launchError(hopper, {.grid = {6}, .cluster = {4}}) ==
        "launching 'attend': the grid (6, 1, 1) is not a multiple of the cluster (4, 1, 1)");
  CHECK(launchError(hopper, {.grid = {32}, .cluster = {32}}) ==
        "launching 'attend': expected a cluster of 1 to 16 blocks, found (32, 1, 1)");
  CHECK(launchError(hopper, {.cluster = {0}}).ends_with("found (0, 1, 1)"));
  CHECK(launchError(hopper, {.grid = {16, 16}, .cluster = {8, 4}}).ends_with("found (8, 4, 1)"));

  const std::string ptx80 = ".version 8.0\n.target sm_80\n.visible .entry attend(";
  const Function ampere = prepare(Context::retain(driver, 1).value(), ptx80, "attend").value();
  CHECK(launchError(ampere, {.grid = {2}, .cluster = {2}}) ==
        "launching 'attend': clusters and programmatic launches need sm_90 or newer; CUDA device 1 (A100) is sm_80");
  CHECK(launch(ampere, {.grid = {2}}, kParameters));
}

TEST_CASE("parameters of other number or sizes are refused before anything runs") {
  Fake fake;
  const Function function = prepare(fake.context(), kPtx, "attend").value();
  const Parameter same[] = {Parameter::of(kPointer), Parameter::of(kPointer)};
  CHECK(said(launch(function, {}, same)) == "launching 'attend': parameter 1: expected 4 bytes, found 8");
  CHECK(said(launch(function, {}, std::span(same, 1))) == "launching 'attend': expected 2 parameters, found 1");
  const Parameter null[] = {{nullptr, 8}, Parameter::of(kCount)};
  CHECK(said(launch(function, {}, null)) ==
        "launching 'attend': parameter 0: expected a value, found a null pointer to one");
  const std::vector<Parameter> many(545, Parameter::of(kCount));
  CHECK(said(launch(function, {}, many)) == "launching 'attend': expected at most 544 parameters, found 545");
  CHECK(fake->launches.empty());
}

TEST_CASE("parameters hold up to what driver and GPU take") {
  Fake fake;
  const std::vector<char> large(4097);
  fake->parameterBytes = {4097};
  const Parameter parameter[] = {{large.data(), large.size()}};
  CHECK(launch(prepare(fake.context(), kPtx, "attend").value(), {}, parameter));
  const Parameter huge[] = {{large.data(), 32765}};
  CHECK(said(launch(prepare(fake.context(), kPtx, "attend").value(), {}, huge)) ==
        "launching 'attend': expected at most 32764 bytes of parameters, found 32765");
  fake->version = 12000;
  CHECK(said(launch(prepare(fake.context(), kPtx, "attend").value(), {}, parameter)) ==
        "launching 'attend': expected at most 4096 bytes of parameters, found 4097");
}

TEST_CASE("a launch that fails names the kernel, and says when the context is lost") {
  Fake fake;
  const Function function = prepare(fake.context(), kPtx, "attend").value();
  fake->failures["cuLaunchKernelEx"] = 700;
  CHECK(launchError(function, {}) == "launching 'attend': cuLaunchKernelEx: FAKE_ERROR_700 (700): the driver's words; "
                                     "a kernel touched memory that is not its own; the "
                                     "context is lost: every later call in this process fails, restart it");
}

TEST_CASE("functions are launched from several threads, each with its context restored") {
  Fake fake;
  const DriverPointer driver = fake.driver();
  std::optional<Context> context = Context::retain(driver, 0).value();
  const Function function = prepare(*context, kPtx, "attend").value();
  std::vector<std::jthread> threads;
  threads.reserve(8);
  std::vector<int> good(8);
  for (std::size_t i = 0; i < good.size(); ++i)
    threads.emplace_back([&, i] {
      const ContextScope scope = ContextScope::enter(*context).value();
      abi::Context current = nullptr;
      good[i] = driver->api.cuCtxGetCurrent(&current) == 0 && current == context->handle();
    });
  threads.clear();
  CHECK(std::all_of(good.begin(), good.end(), [](int one) { return one == 1; }));
}
