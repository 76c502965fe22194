// Exchange between the lanes of a warp: shfl, vote, match, redux, activemask, elect.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"
#include "runtime/emulator/WarpCollective.h"

#include <algorithm>

namespace yaglom::emulator {
namespace {

enum Shuffle : uint8_t { Up, Down, Bfly, Idx };

/// The source lane, and whether it lies in the lane's segment (PTX ISA, shfl.sync).
int shuffleSource(uint8_t mode, int lane, uint32_t b, uint32_t c, bool &inside) {
  const int segment = static_cast<int>(c >> 8 & 31);
  const int clamp = static_cast<int>(c & 31);
  const int offset = static_cast<int>(b & 31);
  const int last = (lane & segment) | (clamp & ~segment);
  const int first = lane & segment;
  int source = lane;
  switch (mode) {
  case Up:
    source = lane - offset;
    inside = source >= last;
    break;
  case Down:
    source = lane + offset;
    inside = source <= last;
    break;
  case Bfly:
    source = lane ^ offset;
    inside = source <= last;
    break;
  default:
    source = first | (offset & ~segment);
    inside = source <= last;
  }
  return inside ? source : lane;
}

/// slots: destination, predicate, a, b, c, members. The value of a lane that does not take part is not defined.
void shuffle(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t members = 0;
  if (!collectiveReady(warp, op, mask, op.slots[5], members))
    return;
  const uint32_t *a = warp.words(op.slots[2]), *b = warp.words(op.slots[3]), *c = warp.words(op.slots[4]);
  alignas(64) uint32_t out[kLanes];
  const uint32_t there = warp.validity[op.slots[2]] & mask;
  const uint32_t steered = warp.validity[op.slots[3]] & warp.validity[op.slots[4]];
  uint32_t valid = 0, inside = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    bool within = false;
    const int source = shuffleSource(op.mode, static_cast<int>(lane), b[lane], c[lane], within);
    out[lane] = a[source & 31];
    valid |= (there >> (source & 31) & 1) << lane;
    inside |= static_cast<uint32_t>(within) << lane;
  }
  commit(warp, op.slots[0], out, mask, valid & steered);
  if (op.count == 2)
    warp.setPredicate(op.slots[1], mask, inside, steered);
}

void decodeShuffle(Decoder &decoder) {
  Op &op = decoder.op;
  decoder.requireOneOf({"sync"});
  op.mode = static_cast<uint8_t>(decoder.requireOneOf({"up", "down", "bfly", "idx"}));
  decoder.expectOperands(5, 5);
  const syntax::Operand &to = decoder.operand(0);
  op.slots[0] = decoder.destination(to, 32);
  op.count = 1;
  if (!to.elements.empty()) {
    op.count = 2;
    op.slots[1] = decoder.destination(to.elements.front(), 1);
  }
  for (unsigned i = 1; i < 5; ++i)
    op.slots[1 + i] = decoder.source(decoder.operand(i), 32);
  op.control = Control::Collective;
  op.run = shuffle;
}

enum Vote : uint8_t { All, Any, Uni, Ballot };

/// slots: destination, predicate, members.
void vote(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t members = 0;
  if (!collectiveReady(warp, op, mask, op.slots[2], members))
    return;
  const uint32_t value = (warp.predicates[op.slots[1]] ^ (op.flags ? kAllLanes : 0)) & mask;
  const uint32_t valid = (warp.predicateValidity[op.slots[1]] & mask) == mask ? kAllLanes : 0;
  if (op.mode == Ballot) {
    alignas(64) uint32_t out[kLanes];
    std::fill_n(out, kLanes, value);
    return commit(warp, op.slots[0], out, mask, valid);
  }
  const bool result = op.mode == All ? value == mask : op.mode == Any ? value != 0 : value == 0 || value == mask;
  warp.setPredicate(op.slots[0], mask, result ? kAllLanes : 0, valid);
}

void decodeVote(Decoder &decoder) {
  Op &op = decoder.op;
  decoder.requireOneOf({"sync"});
  op.mode = static_cast<uint8_t>(decoder.requireOneOf({"all", "any", "uni", "ballot"}));
  decoder.expectOperands(3, 3);
  if ((op.mode == Ballot) != (decoder.type() == Type::B32))
    decoder.fail("'.ballot' goes with '.b32', the others with '.pred'");
  op.slots[0] = decoder.destination(decoder.operand(0), op.mode == Ballot ? 32 : 1);
  bool negated = false;
  op.slots[1] = decoder.predicate(decoder.operand(1), negated);
  op.flags = negated;
  op.slots[2] = decoder.source(decoder.operand(2), 32);
  op.control = Control::Collective;
  op.run = vote;
}

/// slots: destination, predicate, a, members.
void match(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t members = 0;
  if (!collectiveReady(warp, op, mask, op.slots[3], members))
    return;
  const bool wide = op.bytes == 8;
  alignas(64) uint32_t out[kLanes] = {};
  const bool all = op.mode;
  bool same = true;
  const uint64_t first = warp.lane64(op.slots[2], std::countr_zero(mask), wide);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    const uint64_t value = warp.lane64(op.slots[2], lane, wide);
    same &= value == first;
    for (uint32_t others = mask; others; others &= others - 1) {
      const unsigned other = std::countr_zero(others);
      out[lane] |= static_cast<uint32_t>(warp.lane64(op.slots[2], other, wide) == value) << other;
    }
  }
  if (all)
    std::fill_n(out, kLanes, same ? mask : 0);
  const uint32_t valid = (warp.validity[op.slots[2]] & mask) == mask ? kAllLanes : 0;
  commit(warp, op.slots[0], out, mask, valid);
  if (op.count == 2)
    warp.setPredicate(op.slots[1], mask, same ? kAllLanes : 0, valid);
}

void decodeMatch(Decoder &decoder) {
  Op &op = decoder.op;
  op.mode = decoder.requireOneOf({"any", "all"}) == 1;
  decoder.requireOneOf({"sync"});
  decoder.expectOperands(3, 3);
  const syntax::Operand &to = decoder.operand(0);
  op.slots[0] = decoder.destination(to, 32);
  op.count = to.elements.empty() ? 1 : 2;
  if (op.count == 2 && !op.mode)
    decoder.fail("'.any' has no predicate");
  if (op.count == 2)
    op.slots[1] = decoder.destination(to.elements.front(), 1);
  op.bytes = static_cast<uint8_t>(bytesOf(decoder.type()));
  op.slots[2] = decoder.source(decoder.operand(1), bitsOf(decoder.type()));
  op.slots[3] = decoder.source(decoder.operand(2), 32);
  op.control = Control::Collective;
  op.run = match;
}

enum Reduction : uint8_t { Add, Min, Max, And, Or, Xor };

uint32_t reduce(uint8_t kind, bool isSigned, uint32_t a, uint32_t b) {
  const bool less = isSigned ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
  switch (kind) {
  case Add:
    return a + b;
  case Min:
    return less ? a : b;
  case Max:
    return less ? b : a;
  case And:
    return a & b;
  case Or:
    return a | b;
  default:
    return a ^ b;
  }
}

/// slots: destination, a, members.
void reduction(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t members = 0;
  if (!collectiveReady(warp, op, mask, op.slots[2], members))
    return;
  const uint32_t *a = warp.words(op.slots[1]);
  uint32_t rest = mask;
  uint32_t value = a[std::countr_zero(rest)];
  for (rest &= rest - 1; rest; rest &= rest - 1)
    value = reduce(op.mode, op.flags, value, a[std::countr_zero(rest)]);
  alignas(64) uint32_t out[kLanes];
  std::fill_n(out, kLanes, value);
  commit(warp, op.slots[0], out, mask, (warp.validity[op.slots[1]] & mask) == mask ? kAllLanes : 0);
}

void decodeReduction(Decoder &decoder) {
  Op &op = decoder.op;
  decoder.requireOneOf({"sync"});
  op.mode = static_cast<uint8_t>(decoder.requireOneOf({"add", "min", "max", "and", "or", "xor"}));
  op.flags = decoder.type() == Type::S32;
  if ((op.mode >= And) != (decoder.type() == Type::B32))
    decoder.fail("'.and', '.or' and '.xor' go with '.b32', the others with '.u32' and '.s32'");
  decoder.expectOperands(3, 3);
  op.slots[0] = decoder.destination(decoder.operand(0), 32);
  op.slots[1] = decoder.source(decoder.operand(1), 32);
  op.slots[2] = decoder.source(decoder.operand(2), 32);
  op.control = Control::Collective;
  op.run = reduction;
}

void activeMask(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint32_t out[kLanes];
  std::fill_n(out, kLanes, mask);
  commit(warp, op.slots[0], out, mask, kAllLanes);
}
void decodeActiveMask(Decoder &decoder) {
  decoder.expectOperands(1, 1);
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), 32);
  decoder.op.run = activeMask;
}

/// slots: destination, predicate, members. The lowest member is elected.
void elect(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t members = 0;
  if (!collectiveReady(warp, op, mask, op.slots[2], members))
    return;
  const auto leader = static_cast<uint32_t>(std::countr_zero(mask));
  alignas(64) uint32_t out[kLanes];
  std::fill_n(out, kLanes, leader);
  commit(warp, op.slots[0], out, mask, kAllLanes);
  warp.setPredicate(op.slots[1], mask, 1u << leader, kAllLanes);
}
void decodeElect(Decoder &decoder) {
  decoder.requireOneOf({"sync"});
  decoder.expectOperands(2, 2);
  const syntax::Operand &to = decoder.operand(0);
  if (to.elements.empty())
    return decoder.fail("a register and a predicate are expected: d|p");
  Op &op = decoder.op;
  op.slots[0] = decoder.destination(to, 32);
  op.slots[1] = decoder.destination(to.elements.front(), 1);
  op.slots[2] = decoder.source(decoder.operand(1), 32);
  op.control = Control::Collective;
  op.run = elect;
}

constexpr InstructionRow kRows[] = {
    {"shfl", "b32", decodeShuffle},          {"vote", "pred b32", decodeVote},
    {"match", "b32 b64", decodeMatch},       {"redux", "u32 s32 b32", decodeReduction},
    {"activemask", "b32", decodeActiveMask}, {"elect", "", decodeElect},
};

} // namespace

std::span<const InstructionRow> warpRows() { return kRows; }

} // namespace yaglom::emulator
