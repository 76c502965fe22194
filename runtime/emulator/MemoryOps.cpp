// ld, ldu, st and prefetch, of all state spaces and vector widths.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Access.h"
#include "runtime/emulator/Lanes.h"

#include <array>

namespace yaglom::emulator {
namespace {

using syntax::Operand;
using syntax::Space;

uint64_t extendElement(const std::byte *from, const Op &op) {
  uint64_t value = 0;
  std::memcpy(&value, from, op.bytes);
  if (op.flags & kSignExtend) {
    const unsigned shift = 64 - 8 * op.bytes;
    value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
  }
  return value;
}

/// slots: Op::count values, then the base. One access a lane, aligned to its whole width.
void load(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint64_t addresses[kLanes];
  const unsigned bytes = op.bytes * op.count;
  const uint32_t usable =
      addressesOf(warp, op, mask, op.slots[op.count], op.flags & kWideBase, op.immediate, addresses);
  warp.block.count(op, op.space, addresses, usable, bytes);
  std::array<uint32_t, 8> whole{}; // lanes whose element is valid
  const uint64_t element = ByteSet::maskOf(op.bytes);
  const bool words = op.bytes == 4 && !(op.flags & kWideValue);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    alignas(32) std::byte data[32];
    uint64_t valid = ~uint64_t{0};
    if (usable >> lane & 1)
      valid = warp.block.load(warp, op, lane, op.space, addresses[lane], bytes, data);
    else
      std::memset(data, 0, sizeof(data));
    for (unsigned i = 0; i < op.count; ++i) {
      if (words) {
        std::memcpy(warp.words(op.slots[i]) + lane, data + 4 * i, 4);
      } else {
        const uint64_t value = extendElement(data + i * op.bytes, op);
        if (op.flags & kWideValue)
          warp.wides(op.slots[i])[lane] = value;
        else
          warp.words(op.slots[i])[lane] = static_cast<uint32_t>(value) & static_cast<uint32_t>(op.immediate2);
      }
      whole[i] |= static_cast<uint32_t>((valid >> i * op.bytes & element) == element) << lane;
    }
  }
  for (unsigned i = 0; i < op.count; ++i)
    warp.setValid(op.slots[i], mask, whole[i]);
}

/// slots: the values, then the base.
void store(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint64_t addresses[kLanes];
  const unsigned bytes = op.bytes * op.count;
  const uint32_t usable =
      addressesOf(warp, op, mask, op.slots[op.count], op.flags & kWideBase, op.immediate, addresses);
  warp.block.count(op, op.space, addresses, usable, bytes);
  const bool words = op.bytes == 4 && !(op.flags & kWideValue);
  for (uint32_t rest = usable; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    std::byte data[32];
    uint64_t valid = 0;
    for (unsigned i = 0; i < op.count; ++i) {
      if (words) {
        std::memcpy(data + 4 * i, warp.words(op.slots[i]) + lane, 4);
      } else {
        const uint64_t value = warp.lane64(op.slots[i], lane, op.flags & kWideValue);
        std::memcpy(data + i * op.bytes, &value, op.bytes);
      }
      if (warp.validity[op.slots[i]] >> lane & 1)
        valid |= ByteSet::maskOf(op.bytes) << i * op.bytes;
    }
    warp.block.store(warp, op, lane, op.space, addresses[lane], bytes, data, valid);
  }
}

/// The registers of `operand`: one, or as many as the vector has.
void decodeValues(Decoder &decoder, const Operand &operand, unsigned count, bool into) {
  Op &op = decoder.op;
  const bool vector = operand.kind == Operand::Kind::Vector;
  if ((vector ? operand.elements.size() : 1) != count)
    return decoder.fail("the vector's length and its registers differ");
  op.count = static_cast<uint8_t>(count);
  op.immediate2 = 0xffffffff;
  bool wideBefore = false;
  for (unsigned i = 0; i < count; ++i) {
    const Operand &element = vector ? operand.elements[i] : operand;
    bool wide = false;
    op.slots[i] = into ? decoder.looseDestination(element, decoder.type(), wide)
                       : decoder.looseSource(element, decoder.type(), wide);
    if (element.kind == Operand::Kind::Register && bitsOf(decoder.kernel().registers[element.index].type) == 16)
      op.immediate2 = 0xffff;
    if (i > 0 && wide != wideBefore)
      decoder.fail("registers of one width are expected");
    wideBefore = wide;
  }
  op.flags |= wideBefore ? kWideValue : 0;
}

void decodeAccess(Decoder &decoder, bool loads) {
  Op &op = decoder.op;
  const std::size_t policy = takeMemoryHints(decoder);
  op.space = decoder.takeSpace();
  decoder.take("unified");
  const int vector = decoder.takeOneOf({"v2", "v4", "v8"});
  decoder.expectOperands(2, 2 + policy);
  op.bytes = static_cast<uint8_t>(bytesOf(decoder.type()));
  op.flags |= isSigned(decoder.type()) ? kSignExtend : 0;
  const unsigned count = vector < 0 ? 1 : 2u << vector;
  if (count * op.bytes > 32)
    return decoder.fail("an access has at most 32 bytes");
  if (!loads && (op.space == Space::Const || op.space == Space::Param))
    return decoder.fail("this state space cannot be written");
  decodeValues(decoder, decoder.operand(loads ? 0 : 1), count, loads);
  bool wide = false;
  op.slots[op.count] = decoder.address(decoder.operand(loads ? 1 : 0), op.space, wide, op.immediate);
  op.flags |= wide ? kWideBase : 0;
  if (op.space == Space::Const)
    op.space = Space::Global; // one window: constants are read-only regions
  op.run = loads ? load : store;
}
void decodeLoad(Decoder &decoder) { decodeAccess(decoder, true); }
void decodeStore(Decoder &decoder) { decodeAccess(decoder, false); }

void nothing(Warp &, const Op &, uint32_t) {}

/// Without effect on what is computed; the operand is checked for its form only.
void decodePrefetch(Decoder &decoder) {
  const Space space = decoder.takeSpace();
  decoder.requireOneOf({"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"});
  decoder.expectOperands(1, 1);
  bool wide = false;
  int64_t displacement = 0;
  decoder.address(decoder.operand(0), space, wide, displacement);
  decoder.op.run = nothing;
}

constexpr std::string_view kTypes = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64";
constexpr InstructionRow kRows[] = {
    {"ld", kTypes, decodeLoad},       {"ldu", kTypes, decodeLoad},       {"st", kTypes, decodeStore},
    {"prefetch", "", decodePrefetch}, {"prefetchu", "", decodePrefetch},
};

} // namespace

std::span<const InstructionRow> memoryRows() { return kRows; }

} // namespace yaglom::emulator
