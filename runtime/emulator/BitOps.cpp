// Bits: logic, shifts, fields, counts and permutations.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"

#include <algorithm>

namespace yaglom::emulator {
namespace {

template <class T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T apply(T a) { return static_cast<T>(~a); }
};
template <class T>
struct Cnot {
  static T apply(T a) { return a == 0; }
};

template <class F>
void predicateLogic(Warp &warp, const Op &op, uint32_t mask) {
  const uint32_t a = warp.predicates[op.slots[1]], b = warp.predicates[op.slots[2]];
  warp.setPredicate(op.slots[0], mask, F::apply(a, b),
                    warp.predicateValidity[op.slots[1]] & warp.predicateValidity[op.slots[2]]);
}
void predicateNot(Warp &warp, const Op &op, uint32_t mask) {
  warp.setPredicate(op.slots[0], mask, ~warp.predicates[op.slots[1]], warp.predicateValidity[op.slots[1]]);
}

/// Shift counts above the width act as the width (PTX ISA, shl and shr).
template <class T>
struct ShiftLeft {
  static T apply(T a, uint32_t b) { return b >= 8 * sizeof(T) ? 0 : static_cast<T>(static_cast<uint64_t>(a) << b); }
};
template <class T>
struct ShiftRight {
  static T apply(T a, uint32_t b) {
    constexpr uint32_t kLast = 8 * sizeof(T) - 1;
    if (std::is_signed_v<T>)
      return static_cast<T>(a >> std::min(b, kLast));
    return b > kLast ? 0 : static_cast<T>(a >> b);
  }
};
template <bool Left, bool Clamp>
struct Funnel {
  static uint32_t apply(uint32_t low, uint32_t high, uint32_t count) {
    const uint32_t n = Clamp ? std::min(count, 32u) : count & 31;
    const uint64_t both = uint64_t{high} << 32 | low;
    return Left ? static_cast<uint32_t>((both << n) >> 32) : static_cast<uint32_t>(both >> n);
  }
};
/// A field of `length` bits from `begin`; what lies outside a is filled with the sign of the field's last bit, or of a's.
template <class T>
struct ExtractField {
  static T apply(T a, uint32_t begin, uint32_t length) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    begin &= 255, length &= 255;
    if (length == 0)
      return 0;
    const bool sign = std::is_signed_v<T> && (a >> std::min(begin + length - 1, kBits - 1) & 1);
    using W = std::make_unsigned_t<T>;
    W value = begin >= kBits ? 0 : static_cast<W>(static_cast<W>(a) >> begin);
    const uint32_t there = begin >= kBits ? 0 : std::min(length, kBits - begin);
    if (there < kBits) {
      const W field = static_cast<W>((W{1} << there) - 1);
      value = static_cast<W>((value & field) | (sign ? static_cast<W>(~field) : W{0}));
    }
    return static_cast<T>(value);
  }
};
template <class T>
struct InsertField {
  static T apply(T a, T b, uint32_t begin, uint32_t length) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    begin &= 255, length &= 255;
    if (length == 0 || begin >= kBits)
      return b;
    const T ones = length >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T field = static_cast<T>(ones << begin);
    return static_cast<T>((b & ~field) | ((a << begin) & field));
  }
};
template <class T, bool ShiftAmount>
struct FindBit {
  static uint32_t apply(T a) {
    using W = std::make_unsigned_t<T>;
    const W value = std::is_signed_v<T> && a < 0 ? static_cast<W>(~static_cast<W>(a)) : static_cast<W>(a);
    if (value == 0)
      return 0xffffffffu;
    const int leading = std::countl_zero(value);
    return ShiftAmount ? static_cast<uint32_t>(leading) : static_cast<uint32_t>(8 * sizeof(T)) - 1 - leading;
  }
};
template <class T>
struct Reverse {
  static T apply(T a) {
    T out = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i)
      out = static_cast<T>(out << 1 | (a >> i & 1));
    return out;
  }
};
template <class T>
struct PopulationCount {
  static uint32_t apply(T a) { return static_cast<uint32_t>(std::popcount(a)); }
};
template <class T>
struct CountLeadingZeros {
  static uint32_t apply(T a) { return static_cast<uint32_t>(std::countl_zero(a)); }
};

/// Byte `selector` of the pair; bit 3 of a nibble replicates the byte's sign.
uint32_t selectByte(uint64_t pair, uint32_t nibble) {
  const uint32_t byte = pair >> 8 * (nibble & 7) & 255;
  return nibble & 8 ? (byte & 128 ? 255 : 0) : byte;
}
enum class Permute : uint8_t { Bytes, Forward4, Backward4, Replicate8, EdgeLeft, EdgeRight, Replicate16 };

uint32_t selectorOf(Permute mode, uint32_t c) {
  static constexpr uint16_t kForward[4] = {0x3210, 0x4321, 0x5432, 0x6543};
  static constexpr uint16_t kBackward[4] = {0x5670, 0x6701, 0x7012, 0x0123};
  static constexpr uint16_t kReplicate8[4] = {0x0000, 0x1111, 0x2222, 0x3333};
  static constexpr uint16_t kLeft[4] = {0x3210, 0x3211, 0x3222, 0x3333};
  static constexpr uint16_t kRight[4] = {0x0000, 0x1110, 0x2210, 0x3210};
  static constexpr uint16_t kReplicate16[4] = {0x1010, 0x3232, 0x1010, 0x3232};
  switch (mode) {
  case Permute::Bytes:
    return c & 0xffff;
  case Permute::Forward4:
    return kForward[c & 3];
  case Permute::Backward4:
    return kBackward[c & 3];
  case Permute::Replicate8:
    return kReplicate8[c & 3];
  case Permute::EdgeLeft:
    return kLeft[c & 3];
  case Permute::EdgeRight:
    return kRight[c & 3];
  case Permute::Replicate16:
    return kReplicate16[c & 3];
  }
  return 0;
}
template <Permute Mode>
struct PermuteBytes {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t pair = uint64_t{b} << 32 | a;
    const uint32_t selector = selectorOf(Mode, c);
    uint32_t out = 0;
    for (unsigned i = 0; i < 4; ++i)
      out |= selectByte(pair, selector >> 4 * i & 15) << 8 * i;
    return out;
  }
};

void lop3(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint32_t out[kLanes] = {};
  const uint32_t *a = warp.words(op.slots[1]), *b = warp.words(op.slots[2]), *c = warp.words(op.slots[3]);
  for (unsigned row = 0; row < 8; ++row) {
    if (!(op.mode >> row & 1))
      continue;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      out[lane] |= (row & 4 ? a[lane] : ~a[lane]) & (row & 2 ? b[lane] : ~b[lane]) & (row & 1 ? c[lane] : ~c[lane]);
  }
  commit(warp, op.slots[0], out, mask,
         warp.validity[op.slots[1]] & warp.validity[op.slots[2]] & warp.validity[op.slots[3]]);
}

struct BitMask {
  static constexpr uint32_t make(uint64_t begin, uint64_t length) {
    const uint64_t ones = length >= 32 ? 0xffffffffull : (uint64_t{1} << length) - 1;
    return begin >= 32 ? 0 : static_cast<uint32_t>(ones << begin);
  }
};
template <bool Clamp>
struct MakeMask {
  static uint32_t apply(uint32_t a, uint32_t b) { return Clamp ? BitMask::make(a, b) : BitMask::make(a & 31, b & 31); }
};

template <template <class> class F>
void decodeLogic(Decoder &decoder) {
  decodeSameWidth(decoder, 2);
  decoder.op.run = decoder.type() == Type::Pred ? predicateLogic<F<uint32_t>> : pickInteger<F>(decoder.type());
}
void decodeNot(Decoder &decoder) {
  decodeSameWidth(decoder, 1);
  decoder.op.run = decoder.type() == Type::Pred ? predicateNot : pickInteger<Not>(decoder.type());
}
void decodeCnot(Decoder &decoder) {
  decodeSameWidth(decoder, 1);
  decoder.op.run = pickInteger<Cnot>(decoder.type());
}

template <template <class> class F>
void decodeShift(Decoder &decoder) {
  decoder.expectOperands(3, 3);
  const unsigned bits = bitsOf(decoder.type());
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), bits);
  decoder.op.slots[1] = decoder.source(decoder.operand(1), bits);
  decoder.op.slots[2] = decoder.source(decoder.operand(2), 32);
  decoder.op.run = pickInteger<F>(decoder.type());
}

void decodeFunnel(Decoder &decoder) {
  const bool left = decoder.requireOneOf({"l", "r"}) == 0;
  const bool clamp = decoder.requireOneOf({"clamp", "wrap"}) == 0;
  decodeSameWidth(decoder, 3);
  decoder.op.run = left ? (clamp ? lanewise<Funnel<true, true>> : lanewise<Funnel<true, false>>)
                        : (clamp ? lanewise<Funnel<false, true>> : lanewise<Funnel<false, false>>);
}

void decodeExtract(Decoder &decoder) {
  decoder.expectOperands(4, 4);
  const unsigned bits = bitsOf(decoder.type());
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), bits);
  decoder.op.slots[1] = decoder.source(decoder.operand(1), bits);
  decoder.op.slots[2] = decoder.source(decoder.operand(2), 32);
  decoder.op.slots[3] = decoder.source(decoder.operand(3), 32);
  decoder.op.run = pickInteger<ExtractField>(decoder.type());
}
void decodeInsert(Decoder &decoder) {
  decoder.expectOperands(5, 5);
  const unsigned bits = bitsOf(decoder.type());
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), bits);
  decoder.op.slots[1] = decoder.source(decoder.operand(1), bits);
  decoder.op.slots[2] = decoder.source(decoder.operand(2), bits);
  decoder.op.slots[3] = decoder.source(decoder.operand(3), 32);
  decoder.op.slots[4] = decoder.source(decoder.operand(4), 32);
  decoder.op.run = bits == 64 ? lanewise<InsertField<uint64_t>> : lanewise<InsertField<uint32_t>>;
}

/// One source of the type, a result of 32 bits.
void decodeCount(Decoder &decoder) {
  decoder.expectOperands(2, 2);
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), 32);
  decoder.op.slots[1] = decoder.source(decoder.operand(1), bitsOf(decoder.type()));
}
template <template <class> class F>
void decodeCounting(Decoder &decoder) {
  decodeCount(decoder);
  decoder.op.run = bitsOf(decoder.type()) == 64 ? lanewise<F<uint64_t>> : lanewise<F<uint32_t>>;
}
template <class T>
Handler pickFind(bool shift) {
  return shift ? lanewise<FindBit<T, true>> : lanewise<FindBit<T, false>>;
}
void decodeFind(Decoder &decoder) {
  const bool shift = decoder.take("shiftamt");
  decodeCount(decoder);
  decoder.op.run = decoder.type() == Type::U32   ? pickFind<uint32_t>(shift)
                   : decoder.type() == Type::S32 ? pickFind<int32_t>(shift)
                   : decoder.type() == Type::U64 ? pickFind<uint64_t>(shift)
                                                 : pickFind<int64_t>(shift);
}
void decodeReverse(Decoder &decoder) {
  decodeSameWidth(decoder, 1);
  decoder.op.run = bitsOf(decoder.type()) == 64 ? lanewise<Reverse<uint64_t>> : lanewise<Reverse<uint32_t>>;
}

void decodePermute(Decoder &decoder) {
  static constexpr Handler kHandlers[] = {
      lanewise<PermuteBytes<Permute::Forward4>>,   lanewise<PermuteBytes<Permute::Backward4>>,
      lanewise<PermuteBytes<Permute::Replicate8>>, lanewise<PermuteBytes<Permute::EdgeLeft>>,
      lanewise<PermuteBytes<Permute::EdgeRight>>,  lanewise<PermuteBytes<Permute::Replicate16>>};
  decodeSameWidth(decoder, 3);
  const int mode = decoder.takeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  decoder.op.run = mode < 0 ? lanewise<PermuteBytes<Permute::Bytes>> : kHandlers[mode];
}

void decodeLop3(Decoder &decoder) {
  decoder.expectOperands(5, 5);
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), 32);
  for (unsigned i = 1; i < 4; ++i)
    decoder.op.slots[i] = decoder.source(decoder.operand(i), 32);
  const uint64_t table = decoder.immediate(decoder.operand(4));
  if (table > 255)
    decoder.fail("the truth table has 8 bits");
  decoder.op.mode = static_cast<uint8_t>(table);
  decoder.op.run = lop3;
}

void decodeMask(Decoder &decoder) {
  const bool clamp = decoder.requireOneOf({"clamp", "wrap"}) == 0;
  decodeSameWidth(decoder, 2);
  decoder.op.run = clamp ? lanewise<MakeMask<true>> : lanewise<MakeMask<false>>;
}

constexpr InstructionRow kRows[] = {
    {"and", "pred b16 b32 b64", decodeLogic<And>},
    {"or", "pred b16 b32 b64", decodeLogic<Or>},
    {"xor", "pred b16 b32 b64", decodeLogic<Xor>},
    {"not", "pred b16 b32 b64", decodeNot},
    {"cnot", "b16 b32 b64", decodeCnot},
    {"shl", "b16 b32 b64", decodeShift<ShiftLeft>},
    {"shr", "b16 b32 b64 u16 u32 u64 s16 s32 s64", decodeShift<ShiftRight>},
    {"shf", "b32", decodeFunnel},
    {"bfe", "u32 u64 s32 s64", decodeExtract},
    {"bfi", "b32 b64", decodeInsert},
    {"bfind", "u32 u64 s32 s64", decodeFind},
    {"brev", "b32 b64", decodeReverse},
    {"popc", "b32 b64", decodeCounting<PopulationCount>},
    {"clz", "b32 b64", decodeCounting<CountLeadingZeros>},
    {"prmt", "b32", decodePermute},
    {"lop3", "b32", decodeLop3},
    {"bmsk", "b32", decodeMask},
};

} // namespace

std::span<const InstructionRow> bitRows() { return kRows; }

} // namespace yaglom::emulator
