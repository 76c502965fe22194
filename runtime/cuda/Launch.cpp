// Checks a launch against the limits of function and GPU, and enqueues it.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Launch.h"

#include <fmt/format.h>

#include <array>

namespace yaglom::cuda {

namespace {

constexpr uint64_t kMaxGridX = 0x7fffffff;
constexpr uint64_t kMaxGridYZ = 65535;
constexpr uint64_t kMaxBlockXY = 1024;
constexpr uint64_t kMaxBlockZ = 64;
constexpr uint64_t kMaxCluster = 16;
constexpr size_t kMaxParameters = 544; // of 8 bytes each: what PTX before 8.1 has room for
constexpr size_t kMaxParameterBytes = 4096;
constexpr size_t kMaxParameterBytesFrom121 = 32764;
constexpr int kHopper = 90;

Error launchError(const Function &function, const std::string &text) {
  return Error(fmt::format("launching '{}': {}", function.name(), text));
}

std::string text(const Extent &extent) { return fmt::format("({}, {}, {})", extent.x, extent.y, extent.z); }

bool isWithin(const Extent &extent, uint64_t x, uint64_t y, uint64_t z) {
  return extent.x >= 1 && extent.y >= 1 && extent.z >= 1 && extent.x <= x && extent.y <= y && extent.z <= z;
}

/// The product; only of extents that isWithin() has bounded.
uint64_t volume(const Extent &extent) { return extent.x * extent.y * extent.z; }

Result<void> checkCluster(const Function &function, const LaunchConfig &config) {
  const Extent &cluster = config.cluster;
  const Extent &grid = config.grid;
  if (!isWithin(cluster, kMaxCluster, kMaxCluster, kMaxCluster) || volume(cluster) > kMaxCluster)
    return launchError(function,
                       fmt::format("expected a cluster of 1 to {} blocks, found {}", kMaxCluster, text(cluster)));
  if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
    return launchError(function,
                       fmt::format("the grid {} is not a multiple of the cluster {}", text(grid), text(cluster)));
  if (volume(cluster) == 1 && !config.programmatic)
    return {};
  const Device &device = function.context().device();
  const Driver &driver = *function.context().driver();
  if (device.computeCapability < kHopper)
    return launchError(function,
                       fmt::format("clusters and programmatic launches need sm_90 or newer; CUDA device {} ({}) is {}",
                                   device.ordinal, device.name, device.architecture()));
  if (!driver.api.cuLaunchKernelEx)
    return launchError(function,
                       fmt::format("clusters and programmatic launches need a driver of CUDA 11.8 or newer; this one "
                                   "is of {}",
                                   versionText(driver.version())));
  return {};
}

Result<void> checkExtents(const Function &function, const LaunchConfig &config) {
  if (!isWithin(config.grid, kMaxGridX, kMaxGridYZ, kMaxGridYZ))
    return launchError(function, fmt::format("expected a grid of 1 to {} blocks in x and 1 to {} in y and z, found {}",
                                             kMaxGridX, kMaxGridYZ, text(config.grid)));
  const auto threads = static_cast<uint64_t>(function.attributes().maxThreadsPerBlock);
  if (!isWithin(config.block, kMaxBlockXY, kMaxBlockXY, kMaxBlockZ) || volume(config.block) > threads)
    return launchError(function,
                       fmt::format("expected a block of 1 to {} threads, found {}", threads, text(config.block)));
  if (config.dynamicSharedBytes > function.dynamicSharedBytes())
    return launchError(function,
                       fmt::format("expected at most {} bytes of dynamic shared memory, for which it was prepared, "
                                   "found {}",
                                   function.dynamicSharedBytes(), config.dynamicSharedBytes));
  return checkCluster(function, config);
}

Result<void> checkParameters(const Function &function, std::span<const Parameter> parameters) {
  if (parameters.size() > kMaxParameters)
    return launchError(function,
                       fmt::format("expected at most {} parameters, found {}", kMaxParameters, parameters.size()));
  size_t total = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].data)
      return launchError(function, fmt::format("parameter {}: expected a value, found a null pointer to one", i));
    total += parameters[i].bytes;
  }
  const size_t most =
      function.context().driver()->version() >= 12010 && function.context().device().computeCapability >= 70
          ? kMaxParameterBytesFrom121
          : kMaxParameterBytes;
  if (total > most)
    return launchError(function, fmt::format("expected at most {} bytes of parameters, found {}", most, total));

  if (!function.parameterBytes())
    return {};
  const std::vector<size_t> &expected = *function.parameterBytes();
  if (parameters.size() != expected.size())
    return launchError(function, fmt::format("expected {} parameters, found {}", expected.size(), parameters.size()));
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].bytes != expected[i])
      return launchError(function,
                         fmt::format("parameter {}: expected {} bytes, found {}", i, expected[i], parameters[i].bytes));
  return {};
}

/// The driver's form of a launch. The extents have been checked: they fit.
abi::LaunchConfig lowered(const LaunchConfig &config) {
  const auto narrow = [](uint64_t value) { return static_cast<unsigned>(value); };
  return {.gridX = narrow(config.grid.x),
          .gridY = narrow(config.grid.y),
          .gridZ = narrow(config.grid.z),
          .blockX = narrow(config.block.x),
          .blockY = narrow(config.block.y),
          .blockZ = narrow(config.block.z),
          .sharedBytes = narrow(config.dynamicSharedBytes),
          .stream = config.stream,
          .attributes = nullptr,
          .attributeCount = 0};
}

/// Writes the launch's attributes, and how many there are.
unsigned writeAttributes(const LaunchConfig &config, std::array<abi::LaunchAttribute, 2> &attributes) {
  unsigned count = 0;
  if (volume(config.cluster) > 1) {
    abi::LaunchAttribute &cluster = attributes[count++];
    cluster.id = abi::kLaunchClusterDimension;
    cluster.value.clusterDimension = {static_cast<unsigned>(config.cluster.x), static_cast<unsigned>(config.cluster.y),
                                      static_cast<unsigned>(config.cluster.z)};
  }
  if (config.programmatic) {
    abi::LaunchAttribute &programmatic = attributes[count++];
    programmatic.id = abi::kLaunchProgrammaticStreamSerialization;
    programmatic.value.programmaticStreamSerializationAllowed = 1;
  }
  return count;
}

} // namespace

Result<void> launch(const Function &function, const LaunchConfig &config, std::span<const Parameter> parameters) {
  if (auto fits = checkExtents(function, config); !fits)
    return fits.error();
  if (auto fits = checkParameters(function, parameters); !fits)
    return fits.error();

  std::array<void *, kMaxParameters> values;
  for (size_t i = 0; i < parameters.size(); ++i)
    values[i] = const_cast<void *>(parameters[i].data);
  std::array<abi::LaunchAttribute, 2> attributes = {};
  abi::LaunchConfig low = lowered(config);
  low.attributeCount = writeAttributes(config, attributes);
  low.attributes = low.attributeCount ? attributes.data() : nullptr;

  const Driver &driver = *function.context().driver();
  const Result<ContextScope> scope = ContextScope::enter(function.context());
  if (!scope)
    return scope.error();
  const bool extended = driver.api.cuLaunchKernelEx != nullptr;
  const abi::Status status =
      extended ? driver.api.cuLaunchKernelEx(&low, function.handle(), values.data(), nullptr)
               : driver.api.cuLaunchKernel(function.handle(), low.gridX, low.gridY, low.gridZ, low.blockX, low.blockY,
                                           low.blockZ, low.sharedBytes, low.stream, values.data(), nullptr);
  if (status == abi::kSuccess)
    return {};
  return driver.error(status, extended ? "cuLaunchKernelEx" : "cuLaunchKernel",
                      fmt::format("launching '{}'", function.name()));
}

} // namespace yaglom::cuda
