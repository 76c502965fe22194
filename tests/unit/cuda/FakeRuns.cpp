// The fake GPU: the emulator.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/FakeRuns.h"

#include "runtime/emulator/Emulator.h"

#include <atomic>
#include <cstring>
#include <map>

namespace yaglom::fakecuda {

using cuda::abi::Status;

struct FakeModule {
  emulator::Module code;
  std::map<std::string, FakeFunction> functions;
};

namespace {

/// Modules live as long as the process: a test's kernels may outlive a reset.
std::vector<std::shared_ptr<FakeModule>> &modules() {
  static auto *const all = new std::vector<std::shared_ptr<FakeModule>>;
  return *all;
}

} // namespace

uint64_t allocate(State &state, size_t bytes, int device) {
  static std::atomic<uint64_t> next{1};
  constexpr uint64_t kFirst = uint64_t{1} << 52, kDistance = uint64_t{1} << 32;
  const uint64_t address = kFirst + next++ * kDistance;
  FakeAllocation allocation{bytes, device, 2, false, std::shared_ptr<char[]>(new char[bytes])};
  std::memset(allocation.host.get(), 0xff, bytes);
  state.memory[address] = std::move(allocation);
  return address;
}

Status load(const char *image, cuda::abi::Module *module, std::string &log) {
  if (*image == '\x7f')
    return cuda::abi::kNoBinaryForGpu;
  auto code = emulator::Module::parse(image);
  if (!code) {
    log = code.error().what();
    return cuda::abi::kInvalidPtx;
  }
  modules().push_back(std::make_shared<FakeModule>(FakeModule{*code, {}}));
  *module = reinterpret_cast<cuda::abi::Module>(modules().back().get());
  return cuda::abi::kSuccess;
}

Status find(cuda::abi::Module module, const std::string &name, cuda::abi::Function *function) {
  for (const std::shared_ptr<FakeModule> &loaded : modules()) {
    if (reinterpret_cast<cuda::abi::Module>(loaded.get()) != module)
      continue;
    if (!loaded->code.find(name))
      return cuda::abi::kNotFound;
    FakeFunction &found = loaded->functions[name] = {name, loaded};
    *function = reinterpret_cast<cuda::abi::Function>(&found);
    return cuda::abi::kSuccess;
  }
  return cuda::abi::kInvalidHandle;
}

std::vector<size_t> parameterBytes(cuda::abi::Function function) {
  const auto *found = reinterpret_cast<const FakeFunction *>(function);
  std::vector<size_t> bytes;
  for (const emulator::Parameter &parameter : found->module->code.find(found->name)->parameters)
    bytes.push_back(parameter.bytes);
  return bytes;
}

Status run(State &state, const FakeFunction &function, const FakeLaunch &launch, int device) {
  emulator::Launch work{function.name,
                        {launch.grid[0], launch.grid[1], launch.grid[2]},
                        {launch.block[0], launch.block[1], launch.block[2]},
                        launch.shared,
                        {}};
  std::map<uint64_t, emulator::Buffer> buffers;
  for (const std::string &bytes : launch.parameters) {
    int64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    const auto after = state.memory.upper_bound(static_cast<uint64_t>(value));
    if (after == state.memory.begin() || std::prev(after)->second.device != device ||
        static_cast<uint64_t>(value) >= std::prev(after)->first + std::prev(after)->second.bytes) {
      work.arguments.emplace_back(value);
      continue;
    }
    const auto &[first, allocation] = *std::prev(after);
    const std::string name = std::to_string(first);
    buffers[first] = {name, allocation.host.get(), allocation.bytes};
    work.arguments.emplace_back(emulator::Pointer{name, value - static_cast<int64_t>(first)});
  }
  std::vector<emulator::Buffer> all;
  for (const auto &[address, buffer] : buffers)
    all.push_back(buffer);
  const auto report = emulator::run(function.module->code, work, all, {.checks = false});
  if (report && report->clean())
    return cuda::abi::kSuccess;
  state.findings.push_back(function.name + ": " + (report ? report->findingsText() : report.error().what()));
  return report ? cuda::abi::kIllegalAddress : cuda::abi::kInvalidValue;
}

} // namespace yaglom::fakecuda
