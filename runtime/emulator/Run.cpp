// Runs a launch: checks it, gives each buffer its addresses, runs the blocks on several threads.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Merge.h"

#include <fmt/format.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <set>

namespace yaglom::emulator {
namespace {

constexpr uint64_t kMaximalSharedBytes = 232448; ///< of a block, the largest of any architecture (sm_90)

Result<void> checkSizes(const Launch &launch, const Entry &entry) {
  static constexpr std::array<uint64_t, 3> kGrid{0x7fffffff, 65535, 65535}, kBlock{1024, 1024, 64};
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (launch.grid[axis] == 0 || launch.grid[axis] > kGrid[axis])
      return Error(fmt::format("grid[{}] is {}; 1 to {} are possible", axis, launch.grid[axis], kGrid[axis]));
    if (launch.block[axis] == 0 || launch.block[axis] > kBlock[axis])
      return Error(fmt::format("block[{}] is {}; 1 to {} are possible", axis, launch.block[axis], kBlock[axis]));
  }
  const uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (threads > 1024)
    return Error(fmt::format("a block of {} threads; at most 1024 are possible", threads));
  if (entry.requiredThreads[0] && entry.requiredThreads != launch.block)
    return Error(fmt::format("kernel '{}' requires blocks of ({}, {}, {}) threads, not of ({}, {}, {})", entry.name,
                             entry.requiredThreads[0], entry.requiredThreads[1], entry.requiredThreads[2],
                             launch.block[0], launch.block[1], launch.block[2]));
  const std::array<uint32_t, 3> &most = entry.maximalThreads;
  if (most[0] && threads > uint64_t{most[0]} * most[1] * most[2])
    return Error(fmt::format("kernel '{}' takes blocks of at most {} threads, not {}", entry.name,
                             uint64_t{most[0]} * most[1] * most[2], threads));
  return {};
}

Result<void> putNumber(const Parameter &parameter, const Argument &argument, std::byte *into) {
  if (const int64_t *integer = std::get_if<int64_t>(&argument)) {
    if (isFloat(parameter.type))
      return putNumber(parameter, static_cast<double>(*integer), into);
    if (parameter.bytes > 8)
      return Error(
          fmt::format("parameter '{}' has {} bytes; a number does not fill it", parameter.name, parameter.bytes));
    const unsigned bits = static_cast<unsigned>(8 * parameter.bytes);
    if (bits < 64 && (*integer >= int64_t{1} << bits || *integer < -(int64_t{1} << (bits - 1))))
      return Error(fmt::format("parameter '{}': {} does not fit {} bits", parameter.name, *integer, bits));
    std::memcpy(into, integer, parameter.bytes);
    return {};
  }
  const double value = std::get<double>(argument);
  const bool bits = parameter.type == Type::B32 || parameter.type == Type::B64;
  if (parameter.type == Type::F32 || (bits && parameter.bytes == 4)) {
    const auto single = static_cast<float>(value);
    std::memcpy(into, &single, 4);
  } else if (parameter.type == Type::F64 || (bits && parameter.bytes == 8)) {
    std::memcpy(into, &value, 8);
  } else {
    return Error(fmt::format("parameter '{}' is of type .{}, no fraction", parameter.name, toText(parameter.type)));
  }
  return {};
}

Result<void> putArguments(const Entry &entry, const Launch &launch, LaunchState &state) {
  if (launch.arguments.size() != entry.parameters.size())
    return Error(fmt::format("kernel '{}' has {} parameters; {} arguments are given", entry.name,
                             entry.parameters.size(), launch.arguments.size()));
  state.parameters.resize(state.program->parameterBytes);
  for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
    const Parameter &parameter = entry.parameters[i];
    std::byte *into = state.parameters.data() + parameter.offset;
    if (const Pointer *pointer = std::get_if<Pointer>(&launch.arguments[i])) {
      const auto named = [&](const Region &region) { return region.name == pointer->buffer; };
      const auto first = state.regions.begin() + static_cast<std::ptrdiff_t>(state.program->globals.size());
      const auto found = std::find_if(first, state.regions.end(), named);
      if (found == state.regions.end())
        return Error(fmt::format("parameter '{}': there is no buffer '{}'", parameter.name, pointer->buffer));
      if (parameter.bytes != 8 || parameter.type == Type::F64)
        return Error(fmt::format("parameter '{}' is of type .{}, no pointer", parameter.name, toText(parameter.type)));
      const uint64_t address = baseOfGlobal(static_cast<std::size_t>(found - state.regions.begin())) +
                               static_cast<uint64_t>(pointer->offset);
      std::memcpy(into, &address, 8);
    } else if (const auto *bytes = std::get_if<std::vector<std::byte>>(&launch.arguments[i])) {
      if (bytes->size() != parameter.bytes)
        return Error(
            fmt::format("parameter '{}' has {} bytes; {} are given", parameter.name, parameter.bytes, bytes->size()));
      std::copy(bytes->begin(), bytes->end(), into);
    } else if (Result<void> put = putNumber(parameter, launch.arguments[i], into); !put) {
      return put;
    }
  }
  return {};
}

/// Memory of the module's own variables, for one run.
using Variables = std::vector<std::vector<std::byte>>;

Result<void> makeRegions(const std::vector<Buffer> &buffers, Variables &variables, LaunchState &state) {
  const Program &program = *state.program;
  for (const syntax::Variable &variable : program.globals) {
    std::vector<std::byte> &bytes = variables.emplace_back(variable.initialiser);
    const bool global = variable.space == syntax::Space::Global || variable.space == syntax::Space::Const;
    bytes.resize(global ? variable.bytes : 0); // zero where nothing is said (PTX ISA, initializers)
    for (const syntax::AddressInitialiser &address : variable.addresses) {
      const auto at = std::find_if(program.globals.begin(), program.globals.end(),
                                   [&](const syntax::Variable &other) { return other.name == address.symbol; });
      if (at == program.globals.end())
        return Error(
            fmt::format("the initialiser of '{}' names '{}', which is not defined", variable.name, address.symbol));
      const uint64_t value =
          baseOfGlobal(static_cast<std::size_t>(at - program.globals.begin())) + static_cast<uint64_t>(address.offset);
      if (address.at + 8 <= bytes.size())
        std::memcpy(bytes.data() + address.at, &value, 8);
    }
    state.regions.push_back({variable.name, bytes.data(), bytes.size(), variable.space == syntax::Space::Global, true});
  }
  std::set<std::string> names;
  for (const Buffer &buffer : buffers) {
    if (!names.insert(buffer.name).second)
      return Error(fmt::format("two buffers are named '{}'", buffer.name));
    if (!buffer.data && buffer.bytes)
      return Error(fmt::format("buffer '{}' has no memory", buffer.name));
    if (buffer.bytes > kGap / 4)
      return Error(fmt::format("buffer '{}' is too large", buffer.name));
    state.regions.push_back(
        {buffer.name, static_cast<std::byte *>(buffer.data), buffer.bytes, buffer.writable, buffer.initialised});
  }
  return {};
}

uint64_t blocksOf(const LaunchState &state) { return uint64_t{state.grid[0]} * state.grid[1] * state.grid[2]; }

Report runInOrder(LaunchState &state) {
  Merger merger(state, true);
  state.written = &merger.writtenBytes();
  for (uint64_t index = 0; index < blocksOf(state); ++index)
    merger.add(Block(state, index).run());
  state.written = nullptr;
  return merger.finish();
}

/// Blocks in parallel. When two of them touched the same bytes, the order may have mattered: everything is put back and the blocks
/// run one after the other, so that nothing depends on the number of threads.
Report runInParallel(LaunchState &state, int threads) {
  std::vector<std::vector<std::byte>> before;
  before.reserve(state.regions.size());
  for (const Region &region : state.regions)
    before.emplace_back(region.data, region.data + (region.writable && state.options.checks ? region.bytes : 0));
  {
    Merger merger(state, false);
    std::atomic<uint64_t> next{0};
    tbb::task_arena arena(threads);
    arena.execute([&] {
      tbb::parallel_for(0, threads, [&](int) {
        for (uint64_t index = next++; index < blocksOf(state); index = next++)
          merger.add(Block(state, index).run());
      });
    });
    if (!merger.blocksConflict())
      return merger.finish();
  }
  for (std::size_t i = 0; i < before.size(); ++i)
    std::copy(before[i].begin(), before[i].end(), state.regions[i].data);
  return runInOrder(state);
}

Result<std::size_t> findEntry(const Module &module, const Launch &launch) {
  const std::vector<Entry> &entries = module.entries();
  if (launch.kernel.empty() && entries.size() == 1)
    return std::size_t{0};
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (entries[i].name == launch.kernel)
      return i;
  std::string names;
  for (const Entry &entry : entries)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", entry.name);
  return Error(
      launch.kernel.empty()
          ? fmt::format("a kernel must be named: {}", names.empty() ? "the module has none" : names)
          : fmt::format("there is no kernel '{}'; the module has {}", launch.kernel, names.empty() ? "none" : names));
}

} // namespace

Result<Report> run(const Module &module, const Launch &launch, const std::vector<Buffer> &buffers,
                   const Options &options) {
  const Result<std::size_t> index = findEntry(module, launch);
  if (!index)
    return index.error();
  const Entry &entry = module.entries()[*index];
  if (const Result<void> sizes = checkSizes(launch, entry); !sizes)
    return sizes.error();
  LaunchState state;
  state.program = &module.program(*index);
  state.grid = launch.grid;
  state.block = launch.block;
  state.dynamicSharedBytes = launch.dynamicSharedBytes;
  state.sharedBytes =
      std::max(state.program->staticSharedBytes,
               launch.dynamicSharedBytes ? state.program->dynamicSharedOffset + launch.dynamicSharedBytes : 0);
  if (launch.dynamicSharedBytes > kMaximalSharedBytes || state.sharedBytes > kMaximalSharedBytes)
    return Error(
        fmt::format("{} bytes of shared memory; a block has at most {}", state.sharedBytes, kMaximalSharedBytes));
  state.options = options;
  Variables variables;
  variables.reserve(state.program->globals.size());
  if (const Result<void> regions = makeRegions(buffers, variables, state); !regions)
    return regions.error();
  if (const Result<void> arguments = putArguments(entry, launch, state); !arguments)
    return arguments.error();
  const int threads = options.threads > 0 ? options.threads : tbb::info::default_concurrency();
  try {
    if (threads == 1 || blocksOf(state) == 1 || state.program->ordersBlocks)
      return runInOrder(state);
    return runInParallel(state, threads);
  } catch (const std::bad_alloc &) {
    return Error("there is not enough memory to run the kernel");
  }
}

} // namespace yaglom::emulator
