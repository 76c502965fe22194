// Moves: mov with packing and unpacking, selp, slct, cvta, isspacep.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Block.h"
#include "runtime/emulator/Lanes.h"

#include <algorithm>

namespace yaglom::emulator {
namespace {

using syntax::Operand;
using syntax::Space;

template <class S>
void move(Warp &warp, const Op &op, uint32_t mask) {
  commit(warp, op.slots[0], lanesOf<S>(warp, op.slots[1]), mask, warp.validity[op.slots[1]]);
}

void movePredicate(Warp &warp, const Op &op, uint32_t mask) {
  warp.setPredicate(op.slots[0], mask, warp.predicates[op.slots[1]], warp.predicateValidity[op.slots[1]]);
}

/// %clock: instructions that this warp has issued.
template <class S>
void readClock(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) S out[kLanes];
  std::fill_n(out, kLanes, static_cast<S>(warp.serial));
  commit(warp, op.slots[0], out, mask, kAllLanes);
}

/// {a, b, ...} of `mode` bits each into one register of Op::bytes.
void pack(Warp &warp, const Op &op, uint32_t mask) {
  const bool wide = op.bytes == 8;
  alignas(64) uint64_t out[kLanes] = {};
  uint32_t valid = kAllLanes;
  for (unsigned part = 0; part < op.count; ++part) {
    const uint32_t slot = op.slots[1 + part];
    valid &= warp.validity[slot];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      out[lane] |= uint64_t{warp.words(slot)[lane]} << op.mode * part;
  }
  if (wide)
    return commit(warp, op.slots[0], out, mask, valid);
  alignas(64) uint32_t narrow[kLanes];
  std::copy_n(out, kLanes, narrow);
  commit(warp, op.slots[0], narrow, mask, valid);
}

/// One register into several; the source stands behind the destinations.
void unpack(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t from = op.slots[op.count];
  alignas(64) uint64_t value[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    value[lane] = warp.lane64(from, lane, op.bytes == 8);
  const uint64_t ones = op.mode == 32 ? 0xffffffffull : 0xffffull;
  const uint32_t valid = warp.validity[from];
  for (unsigned part = 0; part < op.count; ++part) {
    alignas(64) uint32_t out[kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      out[lane] = static_cast<uint32_t>(value[lane] >> op.mode * part & ones);
    commit(warp, op.slots[part], out, mask, valid);
  }
}

/// slot 0 = predicate (slot 3) ? slot 1 : slot 2. Only the chosen value needs to be valid.
template <class S>
void select(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t choice = warp.predicates[op.slots[3]] ^ (op.flags ? kAllLanes : 0);
  const S *a = lanesOf<S>(warp, op.slots[1]);
  const S *b = lanesOf<S>(warp, op.slots[2]);
  alignas(64) S out[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    out[lane] = choice >> lane & 1 ? a[lane] : b[lane];
  const uint32_t valid = (warp.validity[op.slots[1]] & choice) | (warp.validity[op.slots[2]] & ~choice);
  commit(warp, op.slots[0], out, mask, valid & warp.predicateValidity[op.slots[3]]);
}

/// slct: a where c >= 0; -0 counts as 0, NaN chooses b.
template <class T, class C>
struct SelectBySign {
  static T apply(T a, T b, C c) { return c >= C(0) ? a : b; }
};
struct SelectBySignFlushed {
  static uint32_t apply(uint32_t a, uint32_t b, float c) { return flush(c) >= 0 ? a : b; }
};

void decodeMove(Decoder &decoder) {
  decoder.expectOperands(2, 2);
  const Operand &to = decoder.operand(0);
  const Operand &from = decoder.operand(1);
  const unsigned bits = bitsOf(decoder.type());
  Op &op = decoder.op;
  const bool packs = from.kind == Operand::Kind::Vector;
  const bool unpacks = to.kind == Operand::Kind::Vector;
  if (packs || unpacks) {
    const Operand &vector = packs ? from : to;
    op.count = static_cast<uint8_t>(vector.elements.size());
    op.bytes = static_cast<uint8_t>(bits / 8);
    if ((packs && unpacks) || (op.count != 2 && op.count != 4) || bits / op.count < 16)
      return decoder.fail("a vector of 2 or 4 registers is expected, of 16 or 32 bits");
    op.mode = static_cast<uint8_t>(bits / op.count);
    if (packs)
      op.slots[0] = decoder.destination(to, bits);
    for (unsigned i = 0; i < op.count; ++i)
      op.slots[packs ? 1 + i : i] =
          packs ? decoder.source(vector.elements[i], op.mode) : decoder.destination(vector.elements[i], op.mode);
    if (unpacks)
      op.slots[op.count] = decoder.source(from, bits);
    op.run = packs ? pack : unpack;
    return;
  }
  op.slots[0] = decoder.destination(to, bits);
  if (from.kind == Operand::Kind::Special &&
      (from.name == "%clock" || from.name == "%clock64" || from.name == "%clock_hi" || from.name == "%globaltimer")) {
    op.run = bits == 64 ? readClock<uint64_t> : readClock<uint32_t>;
    return;
  }
  op.slots[1] = decoder.source(from, bits, decoder.type());
  op.run = bits == 1 ? movePredicate : bits == 64 ? move<uint64_t> : move<uint32_t>;
}

void decodeSelect(Decoder &decoder) {
  decoder.expectOperands(4, 4);
  const unsigned bits = bitsOf(decoder.type());
  Op &op = decoder.op;
  op.slots[0] = decoder.destination(decoder.operand(0), bits);
  op.slots[1] = decoder.source(decoder.operand(1), bits, decoder.type());
  op.slots[2] = decoder.source(decoder.operand(2), bits, decoder.type());
  bool negated = false;
  op.slots[3] = decoder.predicate(decoder.operand(3), negated);
  op.flags = negated;
  op.run = bits == 64 ? select<uint64_t> : select<uint32_t>;
}

/// slct.type.{s32,f32}: the table finds it by the second type.
void decodeSelectBySign(Decoder &decoder) {
  decoder.expectOperands(4, 4);
  const Type type = decoder.takeType();
  const unsigned bits = bitsOf(type);
  if (bits < 16)
    return decoder.fail("two types are expected");
  Op &op = decoder.op;
  op.slots[0] = decoder.destination(decoder.operand(0), bits);
  op.slots[1] = decoder.source(decoder.operand(1), bits, type);
  op.slots[2] = decoder.source(decoder.operand(2), bits, type);
  op.slots[3] = decoder.source(decoder.operand(3), 32, decoder.type());
  const bool wide = bits == 64;
  if (decoder.type() == Type::S32)
    op.run = wide ? lanewise<SelectBySign<uint64_t, int32_t>> : lanewise<SelectBySign<uint32_t, int32_t>>;
  else if (decoder.take("ftz") && !wide)
    op.run = lanewise<SelectBySignFlushed>;
  else
    op.run = wide ? lanewise<SelectBySign<uint64_t, float>> : lanewise<SelectBySign<uint32_t, float>>;
}

uint64_t windowOf(Space space) {
  return space == Space::Shared  ? kSharedWindow
         : space == Space::Local ? kLocalWindow
         : space == Space::Param ? kParamWindow
                                 : 0;
}

/// Adds or subtracts the window of the state space; global and constant addresses are generic ones.
template <bool Wide>
void convertAddress(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint64_t out[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    out[lane] = warp.lane64(op.slots[1], lane, Wide) + static_cast<uint64_t>(op.immediate);
  commit(warp, op.slots[0], out, mask, warp.validity[op.slots[1]]);
}

void decodeConvertAddress(Decoder &decoder) {
  decoder.expectOperands(2, 2);
  const bool to = decoder.take("to");
  const Space space = decoder.takeSpace();
  if (space == Space::Generic)
    return decoder.fail("a state space is expected");
  Op &op = decoder.op;
  const unsigned bits = bitsOf(decoder.type());
  if (bits != 64)
    return decoder.fail("only .u64 is supported");
  op.slots[0] = decoder.destination(decoder.operand(0), 64);
  op.slots[1] = decoder.source(decoder.operand(1), 64);
  op.immediate = static_cast<int64_t>(to ? 0 - windowOf(space) : windowOf(space));
  op.run = convertAddress<true>;
}

void isSpace(Warp &warp, const Op &op, uint32_t mask) {
  const uint64_t *addresses = warp.wides(op.slots[1]);
  uint32_t value = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    uint64_t within = 0;
    const bool inside = spaceOfGeneric(addresses[lane], within) == op.space;
    value |= static_cast<uint32_t>(inside) << lane;
  }
  warp.setPredicate(op.slots[0], mask, value, warp.validity[op.slots[1]]);
}

void decodeIsSpace(Decoder &decoder) {
  decoder.expectOperands(2, 2);
  decoder.op.space = decoder.takeSpace();
  if (decoder.op.space == Space::Generic || decoder.op.space == Space::Const)
    return decoder.fail("a state space is expected");
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), 1);
  decoder.op.slots[1] = decoder.source(decoder.operand(1), 64);
  decoder.op.run = isSpace;
}

constexpr InstructionRow kRows[] = {
    {"mov", "pred b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64", decodeMove},
    {"selp", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64", decodeSelect},
    {"slct", "s32 f32", decodeSelectBySign},
    {"cvta", "u64", decodeConvertAddress},
    {"isspacep", "", decodeIsSpace},
};

} // namespace

std::span<const InstructionRow> moveRows() { return kRows; }

} // namespace yaglom::emulator
