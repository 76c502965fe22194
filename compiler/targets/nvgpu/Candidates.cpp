// The cost model of GPUs, and the values that each field of a schedule may take.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/Candidates.h"

#include <algorithm>
#include <initializer_list>

namespace yaglom::compiler::nvgpu {
namespace {

/// Multiply-adds of a warp in a cycle, on tensor cores of a quarter of a multiprocessor.
constexpr double kProductsPerCycle = 128;
/// Cycles of the barriers and the latencies of one chunk, and of waiting for rows that no copy has brought ahead.
constexpr double kChunkSteps = 6000, kWait = 800;
/// Each further warp hides latencies, and makes barriers longer.
constexpr double kBarrierPerWarp = 0.02;

} // namespace

double modelCost(const yaglom::Schedule &schedule, const Device &device, const Traits &traits) {
  const Device used = device.with(schedule);
  const double chunk = static_cast<double>(schedule.chunk ? schedule.chunk : traits.chunk);
  const double granule = std::min(chunk, static_cast<double>(schedule.granule ? schedule.granule : traits.granule));
  const double warps = static_cast<double>(used.warps());
  const double work = traits.fixedWork + traits.workPerChunkToken * (chunk + granule);
  const double fits =
      (2 * chunk * traits.rowElements + traits.stateElements) * static_cast<double>(traits.elementBytes) <
              static_cast<double>(used.sharedBytes)
          ? 1
          : 1.5; // tiles go to the block's memory
  return fits * work / kProductsPerCycle / std::min(warps, 8.0) +
         (kChunkSteps * (1 + kBarrierPerWarp * warps) + (used.stages < 2 ? kWait : 0)) / chunk;
}

std::vector<yaglom::Schedule> neighbours(const yaglom::Schedule &from, const Device &device, const Traits &traits) {
  Neighbours found(from);
  found.varyChunks(traits, {16, 32, 64, 128}, {16, 32});
  found.vary(&yaglom::Schedule::warps, {2, 4, 8, 16}, device.warps());
  found.vary(&yaglom::Schedule::stages, {1, 2}, device.stages);
  return found.take();
}

} // namespace yaglom::compiler::nvgpu
