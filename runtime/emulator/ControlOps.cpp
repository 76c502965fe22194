// Control flow: branches, exits, barriers of a block, fences.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"
#include "runtime/emulator/WarpCollective.h"

namespace yaglom::emulator {
namespace {

using syntax::Operand;

void nothing(Warp &, const Op &, uint32_t) {}

void decodeBranch(Decoder &decoder) {
  decoder.take("uni"); // a promise; lanes that break it diverge all the same
  if (decoder.take("idx")) {
    decoder.expectOperands(2, 2);
    const syntax::BranchTargets *targets = decoder.branchTargets(decoder.operand(1).name);
    if (!targets)
      return decoder.fail("the list of branch targets is unknown");
    decoder.op.slots[0] = decoder.source(decoder.operand(0), 32);
    decoder.op.target = static_cast<uint32_t>(decoder.program().targets.size());
    decoder.op.immediate = static_cast<int64_t>(targets->labels.size());
    for (const std::string &label : targets->labels)
      decoder.program().targets.push_back(decoder.label(label));
    decoder.op.control = Control::BranchIndex;
    return;
  }
  decoder.expectOperands(1, 1);
  decoder.op.target = decoder.label(decoder.operand(0).name);
  decoder.op.control = Control::Branch;
}
void decodeBranchIndex(Decoder &decoder) { decodeBranch(decoder); }

void decodeExit(Decoder &decoder) {
  decoder.take("uni");
  decoder.expectOperands(0, 0);
  decoder.op.control = Control::Exit;
}
void decodeTrap(Decoder &decoder) {
  decoder.expectOperands(0, 0);
  decoder.op.control = Control::Trap;
}

/// bar.warp.sync, which orders the memory accesses of its lanes.
void syncWarp(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t members = 0;
  if (collectiveReady(warp, op, mask, op.slots[0], members))
    warp.syncs.add(warp.serial, members, warp.alive);
}

/// bar{.cta}.sync, barrier{.cta}.sync{.aligned}, the same with .arrive, and bar.warp.sync.
void decodeBarrier(Decoder &decoder, bool aligned) {
  Op &op = decoder.op;
  if (decoder.take("warp")) {
    decoder.requireOneOf({"sync"});
    decoder.expectOperands(1, 1);
    op.slots[0] = decoder.source(decoder.operand(0), 32);
    op.control = Control::Collective;
    op.run = syncWarp;
    return;
  }
  decoder.take("cta");
  const bool arrive = decoder.requireOneOf({"sync", "arrive"}) == 1;
  op.aligned = decoder.take("aligned") || aligned;
  decoder.expectOperands(arrive ? 2 : 1, 2);
  op.slots[0] = decoder.source(decoder.operand(0), 32);
  op.count = decoder.operands() == 2;
  if (op.count)
    op.slots[1] = decoder.source(decoder.operand(1), 32);
  op.mode = arrive;
  op.control = Control::Barrier;
  decoder.program().partialBarriers |= op.count || arrive;
}
void decodeBar(Decoder &decoder) { decodeBarrier(decoder, true); }
void decodeBarrierFull(Decoder &decoder) { decodeBarrier(decoder, false); }

/// The emulator's memory is sequentially consistent: fences have nothing to do, and order no threads of themselves.
void decodeFence(Decoder &decoder) {
  decoder.takeOneOf({"sc", "acq_rel", "acquire", "release"});
  decoder.takeOneOf({"cta", "cluster", "gpu", "gl", "sys"});
  decoder.takeOneOf({"proxy", "mbarrier_init"});
  decoder.takeOneOf({"async", "alias"});
  decoder.expectOperands(0, 0);
  decoder.op.run = nothing;
}
void decodeNanosleep(Decoder &decoder) {
  decoder.expectOperands(1, 1);
  decoder.op.slots[0] = decoder.source(decoder.operand(0), 32);
  decoder.op.run = nothing;
}
void decodeDependency(Decoder &decoder) {
  decoder.requireOneOf({"launch_dependents", "wait"});
  decoder.expectOperands(0, 0);
  decoder.op.run = nothing;
}
void decodeNothing(Decoder &decoder) {
  decoder.takeAll();
  decoder.expectOperands(0, 1);
  decoder.op.run = nothing;
}

constexpr InstructionRow kRows[] = {
    {"bra", "", decodeBranch},
    {"brx", "", decodeBranchIndex},
    {"ret", "", decodeExit},
    {"exit", "", decodeExit},
    {"trap", "", decodeTrap},
    {"brkpt", "", decodeTrap},
    {"bar", "", decodeBar},
    {"barrier", "", decodeBarrierFull},
    {"membar", "", decodeFence},
    {"fence", "", decodeFence},
    {"nanosleep", "u32", decodeNanosleep},
    {"griddepcontrol", "", decodeDependency},
    {"pmevent", "", decodeNothing},
};

} // namespace

std::span<const InstructionRow> controlRows() { return kRows; }

} // namespace yaglom::emulator
