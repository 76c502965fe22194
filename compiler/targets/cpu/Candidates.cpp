// The cost model of processors, and the values that each field of a schedule may take.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/Candidates.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace yaglom::compiler::cpu {
namespace {

// Of the x86 cores of the last ten years: near enough for all of them.
constexpr double kProductsPerCycle = 2, kLoadsPerCycle = 2, kLatency = 4;
constexpr double kFirstCache = 32 << 10, kSecondCache = 512 << 10;
/// Cycles that starting the loops of one chunk takes.
constexpr double kChunkStart = 400;

/// Cycles of one step of a contraction's tile.
double stepCycles(const Machine &machine) {
  const double products = static_cast<double>(machine.accumulators);
  const double vectors = static_cast<double>(machine.tileVectors), rows = products / vectors;
  const double spilled = std::max(0.0, products + vectors + 1 - static_cast<double>(machine.registers));
  const double counting = 1 / static_cast<double>(machine.productSteps);
  return std::max({products / kProductsPerCycle, (rows + vectors) / kLoadsPerCycle, kLatency}) + counting + 2 * spilled;
}

/// How much longer everything takes when a chunk's tiles leave the caches.
double cacheFactor(double bytes) {
  return 1 + (bytes > kFirstCache ? 0.03 * std::log2(bytes / kFirstCache) : 0) + (bytes > kSecondCache ? 0.25 : 0);
}

} // namespace

double modelCost(const yaglom::Schedule &schedule, const Machine &machine, const Traits &traits) {
  const Machine used = machine.with(schedule);
  const double chunk = static_cast<double>(schedule.chunk ? schedule.chunk : traits.chunk);
  const double granule = std::min(chunk, static_cast<double>(schedule.granule ? schedule.granule : traits.granule));
  const double lanes = static_cast<double>(used.lanes(traits.elementBytes));
  const double perCycle = static_cast<double>(used.accumulators) * lanes / stepCycles(used);
  double cycles = (traits.fixedWork + traits.workPerChunkToken * (chunk + granule)) / perCycle;
  cycles += 2 * traits.stateElements / lanes / chunk + kChunkStart / chunk + kChunkStart / 4 / granule;
  cycles *= cacheFactor((chunk * traits.rowElements + traits.stateElements) * static_cast<double>(traits.elementBytes));
  // Small effects whose sign nobody knows before measuring: the further from usual, the later.
  const auto distance = [](double x, double usual) { return std::fabs(std::log2((x + 0.5) / (usual + 0.5))); };
  cycles *= 1 + 0.004 * distance(static_cast<double>(used.prefetchChunks), 1) +
            0.006 * distance(static_cast<double>(used.pointwiseVectors), 4);
  if (schedule.segments)
    cycles *= 1 + 0.01 * distance(static_cast<double>(schedule.segments), 2);
  return cycles;
}

std::vector<yaglom::Schedule> neighbours(const yaglom::Schedule &from, const Machine &machine, const Traits &traits) {
  Neighbours found(from);
  found.varyChunks(traits, {8, 16, 32, 64, 128}, {8, 16, 32});
  for (const int64_t vectors : {1, 2, 4})
    for (const int64_t rows : {2, 3, 4, 5, 6, 8, 10, 12}) {
      const int64_t products = rows * vectors;
      if (products < 6 || products + vectors + 1 > machine.registers)
        continue;
      yaglom::Schedule schedule = from;
      const bool isOwn = products == machine.accumulators && vectors == machine.tileVectors;
      schedule.tileRows = isOwn ? 0 : rows;
      schedule.tileVectors = isOwn ? 0 : vectors;
      found.add(schedule);
    }
  found.vary(&yaglom::Schedule::unroll, {1, 2, 4, 8}, machine.productSteps);
  found.vary(&yaglom::Schedule::pointwise, {2, 4, 8}, machine.pointwiseVectors);
  found.vary(&yaglom::Schedule::prefetch, {yaglom::Schedule::kNoPrefetch, 1, 2, 4}, machine.prefetchChunks);
  if (traits.isSplit)
    found.vary(&yaglom::Schedule::segments, {1, 2, 3, 4}, 2);
  return found.take();
}

} // namespace yaglom::compiler::cpu
