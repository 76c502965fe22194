// cp.async: copies from global to shared memory that land when they are waited for, and not before.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Access.h"
#include "runtime/emulator/Lanes.h"

#include <algorithm>

namespace yaglom::emulator {
namespace {

using syntax::Space;

enum Source : uint8_t { Whole, WithSize, Ignored, IgnoredNot }; ///< Op::mode

/// Poisons the destination and remembers the copy.
void issue(Warp &warp, const Op &op, unsigned lane, uint64_t destination, uint64_t source, unsigned sourceBytes) {
  Block &block = warp.block;
  const Place to = block.locate(warp, op, lane, Space::Shared, destination, op.bytes, true);
  PendingCopy copy;
  copy.lane = static_cast<uint8_t>(lane);
  copy.bytes = op.bytes;
  copy.op = op.index;
  copy.group = warp.groups[lane];
  copy.destination = destination;
  copy.valid = ByteSet::maskOf(op.bytes); // what src-size leaves out is zero
  if (sourceBytes > 0) {
    // The whole cp-size must be aligned; only src-size bytes are read.
    const bool aligned = source % op.bytes == 0;
    const Place from =
        block.locate(warp, op, lane, Space::Global, source, aligned && sourceBytes < op.bytes ? 1 : op.bytes, false);
    if (!from.data)
      return;
    Place last = from;
    if (sourceBytes < op.bytes)
      last = block.locate(warp, op, lane, Space::Global, source + sourceBytes - 1, 1, false);
    if (!last.data)
      return;
    block.touch(warp, op, lane, from, sourceBytes, false, false, false);
    std::memcpy(copy.data.data(), from.data, sourceBytes);
    copy.valid = block.validBytes(from, sourceBytes) | (copy.valid & ~ByteSet::maskOf(sourceBytes));
  }
  if (!to.data)
    return;
  block.touch(warp, op, lane, to, op.bytes, true, false, false);
  std::memset(to.data, 0xff, op.bytes);
  block.setValidBytes(to, op.bytes, 0);
  warp.copies.push_back(copy);
}

/// slots: destination, source, size or predicate.
void copy(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint64_t to[kLanes], from[kLanes];
  uint32_t usable = addressesOf(warp, op, mask, op.slots[0], op.flags & kWideBase, op.immediate, to);
  usable &= addressesOf(warp, op, mask, op.slots[1], op.flags & kWideBase2, op.immediate2, from);
  uint32_t ignored = 0;
  if (op.mode == WithSize) {
    warp.requireValid(op, usable, warp.validity[op.slots[2]], "the source size");
  } else if (op.mode != Whole) {
    ignored = warp.predicates[op.slots[2]] ^ (op.mode == IgnoredNot ? kAllLanes : 0);
    warp.requireValid(op, usable, warp.predicateValidity[op.slots[2]], "the predicate that ignores the source");
  }
  uint32_t reading = usable & ~ignored;
  for (uint32_t rest = usable; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    uint32_t bytes = op.bytes;
    if (op.mode == WithSize)
      bytes = std::min<uint32_t>(warp.words(op.slots[2])[lane], op.bytes);
    if (ignored >> lane & 1)
      bytes = 0;
    if (bytes == 0)
      reading &= ~(1u << lane);
    issue(warp, op, lane, to[lane], from[lane], bytes);
  }
  warp.block.count(op, Space::Shared, to, usable, op.bytes);
  warp.block.count(op, Space::Global, from, reading, op.bytes);
}

void commitGroup(Warp &warp, const Op &, uint32_t mask) {
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    ++warp.groups[std::countr_zero(rest)];
}

/// Lands the copies of all but the last Op::immediate groups of each lane; for wait_all, also what no group holds.
void wait(Warp &warp, const Op &op, uint32_t mask) {
  const bool all = op.mode;
  if (all)
    commitGroup(warp, op, mask);
  auto kept = warp.copies.begin();
  for (const PendingCopy &pending : warp.copies) {
    const bool lands =
        (mask >> pending.lane & 1) && int64_t{pending.group} < int64_t{warp.groups[pending.lane]} - op.immediate;
    if (lands)
      warp.block.land(warp, pending);
    else
      *kept++ = pending;
  }
  warp.copies.erase(kept, warp.copies.end());
}

void decodeCopy(Decoder &decoder) {
  Op &op = decoder.op;
  const int cache = decoder.requireOneOf({"ca", "cg"});
  if (!decoder.take("shared") && !decoder.take("shared::cta"))
    decoder.fail("'.shared' is missing");
  if (!decoder.take("global"))
    decoder.fail("'.global' is missing");
  const std::size_t policy = takeMemoryHints(decoder);
  decoder.expectOperands(3, 4 + policy);
  const uint64_t bytes = decoder.immediate(decoder.operand(2));
  if (cache == 1 ? bytes != 16 : bytes != 4 && bytes != 8 && bytes != 16)
    return decoder.fail("cp-size is 4, 8 or 16 bytes, and 16 with '.cg'");
  op.bytes = static_cast<uint8_t>(bytes);
  bool wide = false, wide2 = false;
  op.slots[0] = decoder.address(decoder.operand(0), Space::Shared, wide, op.immediate);
  op.slots[1] = decoder.address(decoder.operand(1), Space::Global, wide2, op.immediate2);
  op.flags = (wide ? kWideBase : 0) | (wide2 ? kWideBase2 : 0);
  op.run = copy;
  if (decoder.operands() == 3 + policy)
    return;
  const syntax::Operand &size = decoder.operand(3);
  const bool predicate =
      size.kind == syntax::Operand::Kind::Register && decoder.kernel().registers[size.index].type == Type::Pred;
  bool negated = false;
  op.slots[2] = predicate ? decoder.predicate(size, negated) : decoder.source(size, 32);
  op.mode = predicate ? (negated ? IgnoredNot : Ignored) : WithSize;
}

void decodeAsync(Decoder &decoder) {
  Op &op = decoder.op;
  if (!decoder.take("async"))
    return decoder.fail("only cp.async is supported");
  if (decoder.take("commit_group")) {
    decoder.expectOperands(0, 0);
    op.run = commitGroup;
  } else if (decoder.take("wait_group")) {
    decoder.expectOperands(1, 1);
    op.immediate = static_cast<int64_t>(std::min<uint64_t>(decoder.immediate(decoder.operand(0)), 1u << 30));
    op.run = wait;
  } else if (decoder.take("wait_all")) {
    decoder.expectOperands(0, 0);
    op.mode = 1;
    op.run = wait;
  } else {
    decodeCopy(decoder);
  }
}

constexpr InstructionRow kRows[] = {
    {"cp", "", decodeAsync},
};

} // namespace

std::span<const InstructionRow> asyncRows() { return kRows; }

} // namespace yaglom::emulator
