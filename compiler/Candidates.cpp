// Reads the traits of an attention off the scan level, and asks the target.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Candidates.h"

#include "compiler/Compilation.h"
#include "compiler/Work.h"
#include "compiler/formula/Emit.h"
#include "compiler/targets/cpu/Candidates.h"
#include "compiler/targets/nvgpu/Candidates.h"
#include "dialect/Phi.h"

#include <algorithm>

using namespace mlir;

namespace yaglom::compiler {

static Traits traitsOf(Compilation &compilation, Pass pass) {
  Traits traits;
  Schedule own;
  traits.elementBytes = compilation.element().getIntOrFloatBitWidth() / 8;
  traits.chunk = own.chunk;
  traits.granule = own.granule;
  const auto work = [&](int64_t chunk) {
    Schedule schedule;
    schedule.chunk = chunk;
    const Work counted = countWork(*compilation.module, schedule);
    return counted.perQuery + counted.perKey;
  };
  traits.fixedWork = work(-1); // a triangle of nothing
  traits.workPerChunkToken = work(0) - work(-1);
  auto entries = [](Value value) { return double(cast<RankedTensorType>(value.getType()).getNumElements()); };
  compilation.module->lookupSymbol<func::FuncOp>(kForward).walk([&](phi::ScanOp op) {
    traits.stateElements += double(op.stateElements());
    traits.isCausal |= op.isCausal();
    traits.rowElements += 2 * (entries(op.getK()) + entries(op.getV()));
  });
  if (pass != Pass::Forward) { // both sweeps, or one with both states
    traits.fixedWork *= 3;
    traits.workPerChunkToken *= 3;
    traits.stateElements *= 2;
    traits.rowElements *= 2;
  }
  if (pass == Pass::BackwardFromResidual) // that of the forward program
    traits.mostChunk = 0;
  return traits;
}

Result<CandidateSpace> CandidateSpace::make(const Instance &instance, const CompileOptions &options, Pass pass,
                                            bool isSplit) {
  Compilation compilation(instance, options, "candidates");
  if (auto done = compilation.lower(Stage::Scan); !done)
    return done.error();
  Traits traits = traitsOf(compilation, pass);
  traits.isSplit = isSplit && pass == Pass::Forward;
  CandidateSpace space;
  if (const auto architecture = gpuArchitecture(options.target.name())) {
    const Result<nvgpu::Device> device = nvgpu::Device::named(*architecture);
    if (!device)
      return device.error();
    space.neighbours = [=](const yaglom::Schedule &from) { return nvgpu::neighbours(from, *device, traits); };
    space.cost = [=](const yaglom::Schedule &schedule) { return nvgpu::modelCost(schedule, *device, traits); };
    return space;
  }
  const Result<cpu::Machine> machine = cpu::Machine::named(options.target.name());
  if (!machine)
    return machine.error();
  space.neighbours = [=](const yaglom::Schedule &from) { return cpu::neighbours(from, *machine, traits); };
  space.cost = [=](const yaglom::Schedule &schedule) { return cpu::modelCost(schedule, *machine, traits); };
  return space;
}

std::vector<yaglom::Schedule> CandidateSpace::around(const yaglom::Schedule &from) const {
  std::vector<std::pair<double, yaglom::Schedule>> ordered;
  for (const yaglom::Schedule &schedule : neighbours(from))
    ordered.push_back({cost(schedule), schedule});
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  Schedules found;
  for (auto &[ignored, schedule] : ordered)
    if (std::find(found.begin(), found.end(), schedule) == found.end())
      found.push_back(schedule);
  return found;
}

} // namespace yaglom::compiler
