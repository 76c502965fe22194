// atom and red: read, modify and write in one step. Lanes of a warp take their turns in their order.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Access.h"
#include "runtime/emulator/Lanes.h"

#include <algorithm>

namespace yaglom::emulator {
namespace {

using syntax::Space;

enum class Kind : uint8_t { Add, Min, Max, And, Or, Xor, Inc, Dec, Exch, Cas };

constexpr uint8_t kResult = 16; ///< Op::flags: there is a destination; Op::count holds the type

template <class T>
uint64_t integer(Kind kind, uint64_t before, uint64_t b) {
  const T x = static_cast<T>(before), y = static_cast<T>(b);
  switch (kind) {
  case Kind::Add:
    return before + b;
  case Kind::Min:
    return static_cast<uint64_t>(std::min(x, y));
  case Kind::Max:
    return static_cast<uint64_t>(std::max(x, y));
  case Kind::And:
    return before & b;
  case Kind::Or:
    return before | b;
  case Kind::Xor:
    return before ^ b;
  case Kind::Inc:
    return x >= y ? 0 : before + 1;
  case Kind::Dec:
    return x == 0 || x > y ? b : before - 1;
  default:
    return b;
  }
}

template <class T>
uint16_t addHalf(uint64_t a, uint64_t b) {
  constexpr Format kFormat = std::is_same_v<T, Half> ? kHalf : kBfloat;
  const double sum = addOdd(toFloat(T{static_cast<uint16_t>(a)}), toFloat(T{static_cast<uint16_t>(b)}));
  return roundTo<T>(static_cast<float>(sum == sum ? roundToFormat(sum, kFormat, Rounding::Nearest) : sum)).bits;
}
template <class T>
uint64_t addPair(uint64_t a, uint64_t b) {
  return uint64_t{addHalf<T>(a >> 16, b >> 16)} << 16 | addHalf<T>(a, b);
}

uint64_t addFloat(Type type, uint64_t a, uint64_t b, bool global) {
  switch (type) {
  case Type::F16:
    return addHalf<Half>(a, b);
  case Type::BF16:
    return addHalf<Bfloat>(a, b);
  case Type::F16x2:
    return addPair<Half>(a, b);
  case Type::BF16x2:
    return addPair<Bfloat>(a, b);
  case Type::F64:
    return std::bit_cast<uint64_t>(canonical(std::bit_cast<double>(a) + std::bit_cast<double>(b)));
  default: {
    float x = std::bit_cast<float>(static_cast<uint32_t>(a)), y = std::bit_cast<float>(static_cast<uint32_t>(b));
    if (global) // flushes subnormal numbers in global memory, not in shared (PTX ISA, atom)
      return std::bit_cast<uint32_t>(canonical(flush(flush(x) + flush(y))));
    return std::bit_cast<uint32_t>(canonical(x + y));
  }
  }
}

uint64_t apply(Kind kind, Type type, uint64_t before, uint64_t b, bool global) {
  if (isFloat(type))
    return addFloat(type, before, b, global);
  switch (type) {
  case Type::S32:
    return integer<int32_t>(kind, before, b);
  case Type::U64:
  case Type::B64:
    return integer<uint64_t>(kind, before, b);
  case Type::S64:
    return integer<int64_t>(kind, before, b);
  default:
    return integer<uint32_t>(kind, before, b);
  }
}

/// slots: destination, base, b, c.
void atomic(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint64_t addresses[kLanes];
  const uint32_t usable = addressesOf(warp, op, mask, op.slots[1], op.flags & kWideBase, op.immediate, addresses);
  const auto kind = static_cast<Kind>(op.mode);
  const auto type = static_cast<Type>(op.count);
  const bool wide = op.bytes == 8;
  uint32_t operands = warp.validity[op.slots[2]];
  if (kind == Kind::Cas)
    operands &= warp.validity[op.slots[3]];
  warp.requireValid(op, usable, operands, "the value of an atomic operation");
  warp.block.count(op, op.space, addresses, usable, op.bytes);
  for (uint32_t rest = usable; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    const Place place = warp.block.locate(warp, op, lane, op.space, addresses[lane], op.bytes, true);
    uint64_t before = 0;
    bool valid = true;
    if (place.data) {
      warp.block.touch(warp, op, lane, place, op.bytes, true, true, false);
      std::memcpy(&before, place.data, op.bytes);
      valid = warp.block.validBytes(place, op.bytes) == ByteSet::maskOf(op.bytes);
      const uint64_t b = warp.lane64(op.slots[2], lane, wide);
      uint64_t after = 0;
      if (kind == Kind::Cas)
        after = before == b ? warp.lane64(op.slots[3], lane, wide) : before;
      else
        after = apply(kind, type, before, b, place.space == Space::Global);
      std::memcpy(place.data, &after, op.bytes);
      if (kind == Kind::Exch)
        warp.block.setValidBytes(place, op.bytes, ByteSet::maskOf(op.bytes));
    }
    if (!(op.flags & kResult))
      continue;
    if (wide)
      warp.wides(op.slots[0])[lane] = before;
    else
      warp.words(op.slots[0])[lane] = static_cast<uint32_t>(before);
    warp.setValid(op.slots[0], 1u << lane, valid ? kAllLanes : 0);
  }
}

/// Which operations a type has (PTX ISA, atom).
bool exists(Kind kind, Type type) {
  switch (kind) {
  case Kind::Add:
    return isFloat(type) || type == Type::U32 || type == Type::S32 || type == Type::U64;
  case Kind::Min:
  case Kind::Max:
    return !isFloat(type) && bitsOf(type) >= 32 && type != Type::B32 && type != Type::B64;
  case Kind::And:
  case Kind::Or:
  case Kind::Xor:
  case Kind::Exch:
    return type == Type::B32 || type == Type::B64;
  case Kind::Inc:
  case Kind::Dec:
    return type == Type::U32;
  case Kind::Cas:
    return type == Type::B16 || type == Type::B32 || type == Type::B64;
  }
  return false;
}

void decodeAtomic(Decoder &decoder, bool result) {
  Op &op = decoder.op;
  const std::size_t policy = takeMemoryHints(decoder);
  op.space = decoder.takeSpace();
  const int kind = decoder.requireOneOf({"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"});
  decoder.take("noftz");
  const Type type = decoder.type();
  op.mode = static_cast<uint8_t>(kind);
  op.count = static_cast<uint8_t>(type);
  op.bytes = static_cast<uint8_t>(bytesOf(type));
  if (!exists(static_cast<Kind>(kind), type))
    return decoder.fail("this operation does not exist for this type");
  if (op.space == Space::Param || op.space == Space::Local || op.space == Space::Const)
    return decoder.fail("atomics work on global and shared memory");
  const bool cas = static_cast<Kind>(kind) == Kind::Cas;
  const std::size_t first = result ? 1 : 0;
  const std::size_t count = first + 2 + (cas ? 1 : 0);
  decoder.expectOperands(count, count + policy);
  bool wide = false;
  const unsigned bits = bitsOf(type);
  op.slots[0] = result ? decoder.destination(decoder.operand(0), bits) : 0;
  op.slots[1] = decoder.address(decoder.operand(first), op.space, wide, op.immediate);
  op.slots[2] = decoder.source(decoder.operand(first + 1), bits, type);
  if (cas)
    op.slots[3] = decoder.source(decoder.operand(first + 2), bits, type);
  op.flags = (wide ? kWideBase : 0) | (result ? kResult : 0);
  op.run = atomic;
  if (op.space != Space::Shared)
    decoder.program().ordersBlocks = true;
}
void decodeAtom(Decoder &decoder) { decodeAtomic(decoder, true); }
void decodeRed(Decoder &decoder) { decodeAtomic(decoder, false); }

constexpr InstructionRow kRows[] = {
    {"atom", "b16 b32 b64 u32 u64 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64", decodeAtom},
    {"red", "b32 b64 u32 u64 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64", decodeRed},
};

} // namespace

std::span<const InstructionRow> atomicRows() { return kRows; }

} // namespace yaglom::emulator
