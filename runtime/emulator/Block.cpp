// Runs one block: which lanes of which warp go next, control flow and the instruction budget.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Block.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace yaglom::emulator {
namespace {

constexpr uint32_t kPoison = 0x7fc0deadu; ///< a NaN, and no likely address
constexpr unsigned kTurn = 1u << 16;      ///< instructions of a warp before another has its turn

std::array<uint32_t, 3> unflatten(uint64_t index, const std::array<uint32_t, 3> &sizes) {
  return {static_cast<uint32_t>(index % sizes[0]), static_cast<uint32_t>(index / sizes[0] % sizes[1]),
          static_cast<uint32_t>(index / sizes[0] / sizes[1])};
}

uint64_t specialValue(Special special, const Block &block, unsigned warp, unsigned lane) {
  const LaunchState &launch = block.launch;
  const uint32_t threads = launch.threadsPerBlock();
  const std::array<uint32_t, 3> thread = unflatten(std::min(warp * kLanes + lane, threads - 1), launch.block);
  const uint32_t bit = 1u << lane;
  switch (special) {
  case Special::TidX:
  case Special::TidY:
  case Special::TidZ:
    return thread[static_cast<unsigned>(special) - static_cast<unsigned>(Special::TidX)];
  case Special::NtidX:
  case Special::NtidY:
  case Special::NtidZ:
    return launch.block[static_cast<unsigned>(special) - static_cast<unsigned>(Special::NtidX)];
  case Special::CtaidX:
  case Special::CtaidY:
  case Special::CtaidZ:
    return block.position[static_cast<unsigned>(special) - static_cast<unsigned>(Special::CtaidX)];
  case Special::NctaidX:
  case Special::NctaidY:
  case Special::NctaidZ:
    return launch.grid[static_cast<unsigned>(special) - static_cast<unsigned>(Special::NctaidX)];
  case Special::Laneid:
    return lane;
  case Special::Warpid:
    return warp;
  case Special::Nwarpid:
    return (threads + kLanes - 1) / kLanes;
  case Special::Nsmid:
  case Special::One:
    return 1;
  case Special::LanemaskEq:
    return bit;
  case Special::LanemaskLt:
    return bit - 1;
  case Special::LanemaskLe:
    return bit | (bit - 1);
  case Special::LanemaskGt:
    return ~(bit | (bit - 1));
  case Special::LanemaskGe:
    return ~(bit - 1);
  case Special::DynamicSmemSize:
    return launch.dynamicSharedBytes;
  case Special::TotalSmemSize:
    return launch.sharedBytes;
  case Special::Smid:
  case Special::Gridid:
  case Special::Zero:
    return 0;
  }
  return 0;
}

} // namespace

Warp::Warp(Block &block, unsigned number) : block(block), number(number) {
  const Program &program = block.program;
  const std::size_t size = std::size_t{std::max(program.slots, 1u)} * kLanes;
  file.reset(new (std::align_val_t{64}) uint32_t[size]);
  std::fill_n(file.get(), size, kPoison);
  validity.assign(program.slots, 0);
  predicates.assign(program.predicates, 0);
  predicateValidity.assign(program.predicates, 0);
  const auto fill = [&](uint32_t slot, bool wide, auto value) {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if (wide)
        wides(slot)[lane] = value(lane);
      else
        words(slot)[lane] = static_cast<uint32_t>(value(lane));
    validity[slot] = kAllLanes;
  };
  for (const Constant &constant : program.constants)
    fill(constant.slot, constant.wide, [&](unsigned) { return constant.value; });
  for (const SpecialRegister &special : program.specials)
    fill(special.slot, special.wide, [&](unsigned lane) { return specialValue(special.special, block, number, lane); });
  for (const PredicateConstant &constant : program.predicateConstants) {
    predicates[constant.index] = constant.value ? kAllLanes : 0;
    predicateValidity[constant.index] = kAllLanes;
  }
  const uint32_t rest = block.launch.threadsPerBlock() - number * kLanes;
  alive = rest >= kLanes ? kAllLanes : (1u << rest) - 1;
}

void Warp::moveTo(uint32_t lanes, uint32_t target) {
  if (!lanes)
    return;
  if (lanes == alive) {
    uniform = true;
    pc = target;
    return;
  }
  if (uniform) {
    pcs.fill(pc);
    uniform = false;
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    pcs[std::countr_zero(rest)] = target;
}

void Warp::requireValid(const Op &op, uint32_t mask, uint32_t valid, const char *what) {
  for (uint32_t rest = mask & ~valid; rest; rest &= rest - 1)
    block.report(FindingKind::Uninitialised, op, block.threadOf(*this, std::countr_zero(rest)), what);
}

Block::Block(const LaunchState &launch, uint64_t index)
    : launch(launch), program(*launch.program), position(unflatten(index, launch.grid)),
      shared(launch.sharedBytes, launch.options.checks, program.partialBarriers),
      local(program.localBytes, launch.threadsPerBlock()), clocks((launch.threadsPerBlock() + kLanes - 1) / kLanes),
      budget(launch.options.instructionBudget), random(launch.options.seed) {
  result.index = index;
  result.ops.resize(program.ops.size());
  result.traffic.resize(launch.regions.size());
  for (unsigned number = 0; number < clocks.warps; ++number)
    warps.push_back(std::make_unique<Warp>(*this, number));
  for (Barrier &barrier : barriers)
    barrier.lanes.resize(warps.size());
}

void Block::shuffleOrder(std::vector<unsigned> &order) {
  if (launch.options.seed == 0)
    return;
  for (std::size_t i = order.size(); i > 1; --i) {
    // SplitMix64 (Steele, Lea, Flood 2014)
    uint64_t z = random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    std::swap(order[i - 1], order[(z ^ z >> 31) % i]);
  }
}

BlockResult Block::run() {
  std::vector<unsigned> order(warps.size());
  std::iota(order.begin(), order.end(), 0u);
  while (!stopped) {
    shuffleOrder(order);
    bool progress = false;
    bool living = false;
    for (const unsigned number : order) {
      Warp &warp = *warps[number];
      if (warp.alive & ~warp.atBarrier) {
        progress = true;
        runWarp(warp);
      }
      living |= warp.alive != 0;
      if (stopped)
        break;
    }
    checkBarriers();
    if (!living)
      break;
    if (!progress && !stopped) {
      reportStuck();
      break;
    }
  }
  return std::move(result);
}

/// The lanes that go next: those at the lowest instruction, so that divergent lanes meet where their paths do.
uint32_t Block::select(Warp &warp) {
  warp.forced = false;
  if (warp.uniform && !warp.waiting && !warp.atBarrier)
    return warp.active = warp.alive;
  uint32_t candidates = warp.alive & ~warp.atBarrier & ~warp.waiting;
  if (!candidates) {
    candidates = warp.alive & ~warp.atBarrier;
    warp.forced = true;
  }
  if (!candidates)
    return warp.active = 0;
  if (warp.uniform) {
    warp.pcs.fill(warp.pc);
    warp.uniform = false;
  }
  uint32_t lowest = ~0u;
  for (uint32_t rest = candidates; rest; rest &= rest - 1)
    lowest = std::min(lowest, warp.pcs[std::countr_zero(rest)]);
  uint32_t lanes = 0;
  for (uint32_t rest = warp.alive & ~warp.atBarrier; rest; rest &= rest - 1)
    if (warp.pcs[std::countr_zero(rest)] == lowest)
      lanes |= rest & -rest;
  warp.waiting &= ~lanes;
  warp.pc = lowest;
  if (lanes == warp.alive)
    warp.uniform = true;
  return warp.active = lanes;
}

/// Until all lanes wait or have left, or others should have a turn: they may be what this warp waits for in a loop.
void Block::runWarp(Warp &warp) {
  for (unsigned turn = kTurn; turn > 0 && !stopped; --turn) {
    const uint32_t active = select(warp);
    if (!active)
      return;
    const Op &op = program.ops[warp.pc];
    if (budget-- == 0) {
      report(FindingKind::Budget, op, threadOf(warp, std::countr_zero(active)),
             fmt::format("the block has issued {} warp instructions and is stopped", launch.options.instructionBudget));
      stopped = true;
      return;
    }
    uint32_t mask = active;
    if (op.guard >= 0) {
      const uint32_t value = warp.predicates[op.guard];
      if (const uint32_t invalid = active & ~warp.predicateValidity[op.guard])
        warp.requireValid(op, invalid, 0, op.control == Control::Branch ? "a branch's condition" : "the guard");
      mask &= op.guardNot ? ~value : value;
    }
    ++warp.serial;
    ++result.ops[op.index].issues;
    result.threadInstructions += std::popcount(mask);
    execute(warp, op, mask);
  }
}

void Block::execute(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t next = op.index + 1;
  switch (op.control) {
  case Control::None:
    if (mask)
      op.run(warp, op, mask);
    return warp.moveTo(warp.active, next);
  case Control::Collective:
    warp.retry = false;
    if (mask)
      op.run(warp, op, mask);
    return warp.retry ? wait(warp, op, mask) : warp.moveTo(warp.active, next);
  case Control::Branch:
    return branch(warp, op, mask);
  case Control::BranchIndex:
    return branchIndex(warp, op, mask);
  case Control::Exit:
    warp.moveTo(warp.active & ~mask, next);
    return leave(warp, mask);
  case Control::Barrier:
    // Paths of a warp that part and meet again come to a barrier together, in whatever order their text stands.
    if (mask && op.aligned && mask != warp.alive && !warp.forced)
      return wait(warp, op, mask);
    warp.moveTo(warp.active, next);
    if (mask)
      arrive(warp, op, mask);
    return;
  case Control::Trap:
    if (!mask)
      return warp.moveTo(warp.active, next);
    report(FindingKind::Trap, op, threadOf(warp, std::countr_zero(mask)), "the kernel is stopped");
    stopped = true;
    return;
  }
}

/// The lanes of `mask` wait for the others of their warp, to issue together.
void Block::wait(Warp &warp, const Op &op, uint32_t mask) {
  --warp.serial;
  --result.ops[op.index].issues;
  result.threadInstructions -= std::popcount(mask);
  warp.moveTo(warp.active & ~mask, op.index + 1);
  warp.moveTo(mask, op.index);
  warp.waiting |= mask;
}

void Block::branch(Warp &warp, const Op &op, uint32_t mask) {
  if (mask == warp.active)
    return warp.moveTo(mask, op.target);
  const uint32_t others = warp.active & ~mask;
  warp.moveTo(others, op.index + 1);
  if (mask)
    warp.moveTo(mask, op.target);
}

void Block::branchIndex(Warp &warp, const Op &op, uint32_t mask) {
  warp.requireValid(op, mask, warp.validity[op.slots[0]], "the branch's index");
  warp.moveTo(warp.active & ~mask, op.index + 1);
  const uint32_t *index = warp.words(op.slots[0]);
  const auto count = static_cast<uint32_t>(op.immediate);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    if (index[lane] >= count) {
      report(FindingKind::OutOfBounds, op, threadOf(warp, lane),
             fmt::format("index {} of a branch with {} targets", index[lane], count));
      leave(warp, 1u << lane);
    } else {
      warp.moveTo(1u << lane, program.targets[op.target + index[lane]]);
    }
  }
}

/// Threads end. A copy that has not landed is dropped with its thread.
void Block::leave(Warp &warp, uint32_t mask) {
  if (mask && warp.uniform && mask != warp.alive) {
    warp.pcs.fill(warp.pc);
    warp.uniform = false;
  }
  warp.alive &= ~mask;
  warp.waiting &= ~mask;
}

RawFinding &Block::report(FindingKind kind, const Op &op, unsigned thread, const std::string &detail) {
  const auto [at, added] = findingIndex.emplace(std::pair(kind, op.index), result.findings.size());
  if (!added) {
    ++result.findings[at->second].count;
    return result.findings[at->second];
  }
  RawFinding finding;
  finding.kind = kind;
  finding.op = op.index;
  finding.thread = thread;
  finding.detail = detail;
  return result.findings.emplace_back(std::move(finding));
}

std::string Block::threadText(uint32_t thread) const {
  const std::array<uint32_t, 3> at = unflatten(thread, launch.block);
  return launch.block[1] == 1 && launch.block[2] == 1 ? fmt::format("thread {}", at[0])
                                                      : fmt::format("thread ({}, {}, {})", at[0], at[1], at[2]);
}

} // namespace yaglom::emulator
