// Detection of the host's processor and the generic levels.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/Machine.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <algorithm>

namespace yaglom::compiler::cpu {

static void useAvx512(Machine &machine) {
  machine.vectorBytes = 64;
  machine.registers = 32;
  machine.accumulators = 16;
  machine.tileVectors = 4;
  machine.pointwiseVectors = 4;
}

Machine Machine::host() {
  Machine machine;
  machine.cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
  for (const auto &feature : found)
    features.AddFeature(feature.getKey(), feature.getValue());
  machine.features = features.getString();
  if (found.lookup("avx512f") && found.lookup("avx512dq") && found.lookup("avx512vl"))
    useAvx512(machine);
  else if (!found.lookup("avx2"))
    machine.vectorBytes = 16;
  return machine;
}

Machine Machine::with(const yaglom::Schedule &schedule) const {
  Machine machine = *this;
  if (schedule.tileRows) {
    machine.accumulators = schedule.tileRows * schedule.tileVectors;
    machine.tileVectors = schedule.tileVectors;
  }
  if (schedule.pointwise)
    machine.pointwiseVectors = schedule.pointwise;
  if (schedule.unroll)
    machine.productSteps = schedule.unroll;
  if (schedule.prefetch)
    machine.prefetchChunks = std::max<int64_t>(schedule.prefetch, 0); // kNoPrefetch is below
  return machine;
}

Result<Machine> Machine::named(const std::string &target) {
  if (target == "host")
    return host();
  Machine machine;
  machine.cpu = target;
  if (target == "x86-64-v4")
    useAvx512(machine);
  else if (target != "x86-64-v3")
    return Error("unknown processor '" + target + "'; expected host, x86-64-v3 or x86-64-v4");
  return machine;
}

} // namespace yaglom::compiler::cpu
