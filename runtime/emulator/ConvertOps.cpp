// cvt: between all integer and floating-point types, with roundings, saturation and packing of two values.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"

#include <algorithm>
#include <limits>

namespace yaglom::emulator {
namespace {

constexpr uint8_t kFlush = 1, kSaturate = 2, kRelu = 4, kWideFrom = 8, kWideTo = 16, kToInteger = 32,
                  kSaturateFinite = 64; ///< Op::flags

/// Op::bytes and Op::count hold the types, Op::mode the rounding.
Type toType(const Op &op) { return static_cast<Type>(op.bytes); }
Type fromType(const Op &op) { return static_cast<Type>(op.count); }

int64_t extend(uint64_t bits, Type type) {
  const unsigned shift = 64 - bitsOf(type);
  return isSigned(type) ? static_cast<int64_t>(bits << shift) >> shift : static_cast<int64_t>(bits << shift >> shift);
}

/// An integer of 64 bits (unsigned when `negative` cannot be) clamped to the type.
uint64_t clampTo(Type type, bool sourceSigned, uint64_t value) {
  const unsigned bits = bitsOf(type);
  const auto asSigned = static_cast<int64_t>(value);
  const uint64_t largest = isSigned(type) ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0} >> (64 - bits);
  if (sourceSigned && asSigned < 0) {
    if (!isSigned(type))
      return 0;
    const int64_t least = -static_cast<int64_t>(largest) - 1;
    return static_cast<uint64_t>(std::max(asSigned, least));
  }
  return std::min(value, largest);
}

/// Out of range values are clamped. NaN is 0, but where .f64 or a type of 64 bits is involved only its sign bit is set (PTX ISA, cvt).
uint64_t toInteger(double value, Type to, Type from, Rounding rounding) {
  const unsigned bits = bitsOf(to);
  if (value != value)
    return from != Type::F64 && bits < 64 ? 0 : uint64_t{1} << (bits - 1);
  const double rounded = roundInteger(value, rounding);
  const double limit = std::ldexp(1.0, isSigned(to) ? static_cast<int>(bits) - 1 : static_cast<int>(bits));
  const uint64_t largest = isSigned(to) ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0} >> (64 - bits);
  if (rounded >= limit)
    return largest;
  if (isSigned(to))
    return static_cast<uint64_t>(rounded < -limit ? -static_cast<int64_t>(largest) - 1 : static_cast<int64_t>(rounded));
  return rounded <= 0 ? 0 : static_cast<uint64_t>(rounded);
}

double toNumber(uint64_t bits, Type type) {
  switch (type) {
  case Type::F16:
    return toFloat(Half{static_cast<uint16_t>(bits)});
  case Type::BF16:
    return toFloat(Bfloat{static_cast<uint16_t>(bits)});
  case Type::F64:
    return std::bit_cast<double>(bits);
  default:
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
}

double largestOf(Type type) {
  return type == Type::F16    ? 65504.0
         : type == Type::BF16 ? 0x1.fep127
         : type == Type::TF32 ? 0x1.ffcp127
                              : 0x1.fffffep127;
}

/// `value`, exact or rounded to odd, as the bits of the type.
uint64_t fromNumber(double value, Type type, const Op &op) {
  const auto rounding = static_cast<Rounding>(op.mode);
  if ((op.flags & kRelu) && value <= 0)
    value = 0;
  if (type == Type::F64) {
    if (op.flags & kSaturate)
      value = saturate(value);
    return std::bit_cast<uint64_t>(canonical(value));
  }
  if (value == value)
    value = roundToFormat(value,
                          type == Type::F16    ? kHalf
                          : type == Type::BF16 ? kBfloat
                          : type == Type::TF32 ? kTf32
                                               : kSingle,
                          rounding);
  if (op.flags & kSaturate)
    value = saturate(value);
  if ((op.flags & kSaturateFinite) && std::fabs(value) > largestOf(type))
    value = std::copysign(largestOf(type), value);
  auto single = static_cast<float>(value);
  if (type == Type::F32 && (op.flags & kFlush))
    single = flush(single);
  if (type == Type::F16)
    return halfOf(single).bits;
  if (type == Type::BF16)
    return bfloatOf(single).bits;
  return std::bit_cast<uint32_t>(canonical(single));
}

uint64_t convert(uint64_t bits, const Op &op) {
  const Type to = toType(op), from = fromType(op);
  if (!isFloat(from)) {
    const int64_t value = extend(bits, from);
    if (!isFloat(to))
      return static_cast<uint64_t>(extend(op.flags & kSaturate
                                              ? clampTo(to, isSigned(from), static_cast<uint64_t>(value))
                                              : static_cast<uint64_t>(value),
                                          to));
    if (to == Type::F64)
      return std::bit_cast<uint64_t>(isSigned(from) ? static_cast<double>(value)
                                                    : static_cast<double>(static_cast<uint64_t>(value)));
    return fromNumber(isSigned(from) ? toDoubleOdd(value) : toDoubleOdd(static_cast<uint64_t>(value)), to, op);
  }
  double value = toNumber(bits, from);
  if (from == Type::F32 && (op.flags & kFlush))
    value = flush(static_cast<float>(value));
  if (!isFloat(to))
    return static_cast<uint64_t>(extend(toInteger(value, to, from, static_cast<Rounding>(op.mode)), to));
  if (op.flags & kToInteger)
    value = std::copysign(roundInteger(value, static_cast<Rounding>(op.mode)), value);
  return fromNumber(value, to, op);
}

/// Any conversion of one value. A result narrower than its register is extended by the type's sign.
void convertAny(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint64_t out[kLanes];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    out[lane] = convert(warp.lane64(op.slots[1], lane, op.flags & kWideFrom), op);
  const uint32_t valid = warp.validity[op.slots[1]];
  if (op.flags & kWideTo)
    return commit(warp, op.slots[0], out, mask, valid);
  alignas(64) uint32_t narrow[kLanes];
  // A signed result of 8 bits in a register of 16 keeps to the register's width.
  for (unsigned lane = 0; lane < kLanes; ++lane)
    narrow[lane] = static_cast<uint32_t>(out[lane]) & static_cast<uint32_t>(op.immediate);
  commit(warp, op.slots[0], narrow, mask, valid);
}

/// Two values into one register, the first into its upper half.
void convertPair(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint32_t out[kLanes];
  Op element = op;
  element.bytes = static_cast<uint8_t>(toType(op) == Type::F16x2 ? Type::F16 : Type::BF16);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    out[lane] = static_cast<uint32_t>(convert(warp.words(op.slots[1])[lane], element) << 16 |
                                      convert(warp.words(op.slots[2])[lane], element));
  commit(warp, op.slots[0], out, mask, warp.validity[op.slots[1]] & warp.validity[op.slots[2]]);
}

// The conversions that inner loops are made of.
template <class T>
struct PackNearest {
  static uint32_t apply(float a, float b) { return uint32_t{roundTo<T>(a).bits} << 16 | roundTo<T>(b).bits; }
};
template <class T>
struct Widen {
  static float apply(T a) { return canonical(toFloat(a)); }
};
template <class T>
struct Narrow {
  static T apply(float a) { return roundTo<T>(a); }
};
struct NearestInteger {
  static float apply(float a) { return canonical(std::nearbyint(a)); }
};
template <class To, class From>
struct Extend {
  static To apply(From a) { return static_cast<To>(a); }
};
struct ToSingle {
  static float apply(int32_t a) { return static_cast<float>(a); }
};

/// A faster handler for what convertAny() or convertPair() would do, or null.
Handler fastHandler(const Op &op, bool plainRegisters) {
  const Type to = toType(op), from = fromType(op);
  const bool nearest = op.mode == 0;
  const uint8_t flags = op.flags & ~(kWideFrom | kWideTo);
  if (!plainRegisters)
    return nullptr;
  if (flags == kToInteger && nearest && to == Type::F32 && from == Type::F32)
    return lanewise<NearestInteger>;
  if (flags != 0)
    return nullptr;
  if (from == Type::F32 && nearest) {
    if (to == Type::BF16x2)
      return lanewise<PackNearest<Bfloat>>;
    if (to == Type::F16x2)
      return lanewise<PackNearest<Half>>;
    if (to == Type::BF16)
      return lanewise<Narrow<Bfloat>>;
    if (to == Type::F16)
      return lanewise<Narrow<Half>>;
  }
  if (to == Type::F32 && (from == Type::F16 || from == Type::BF16))
    return from == Type::F16 ? lanewise<Widen<Half>> : lanewise<Widen<Bfloat>>;
  if (to == Type::F32 && from == Type::S32 && nearest)
    return lanewise<ToSingle>;
  if (bitsOf(to) == 64 && !isFloat(to) && from == Type::U32)
    return lanewise<Extend<uint64_t, uint32_t>>;
  if (bitsOf(to) == 64 && !isFloat(to) && from == Type::S32)
    return lanewise<Extend<int64_t, int32_t>>;
  if (bitsOf(to) == 32 && !isFloat(to) && bitsOf(from) == 64 && !isFloat(from))
    return lanewise<Extend<uint32_t, uint64_t>>;
  return nullptr;
}

void decodeRounding(Decoder &decoder, Type to, Type from) {
  Op &op = decoder.op;
  const int toInteger = decoder.takeOneOf({"rni", "rzi", "rmi", "rpi"});
  const int toFraction = toInteger < 0 ? decoder.takeOneOf({"rn", "rz", "rm", "rp", "rna"}) : -1;
  op.mode = static_cast<uint8_t>(std::max({toInteger, toFraction, 0}));
  op.flags |= toInteger >= 0 ? kToInteger : 0;
  if (isFloat(from) && !isFloat(to) && toInteger < 0)
    decoder.fail("a rounding to integer is missing: '.rni', '.rzi', '.rmi' or '.rpi'");
  if (toInteger >= 0 && !isFloat(from))
    decoder.fail("an integer needs no rounding to integer");
  const auto fractionOf = [](Type type) { return type == Type::F64 ? 53 : type == Type::F32 ? 24 : 1; };
  const bool inexact =
      isFloat(to) && (isFloat(from) ? fractionOf(to) < fractionOf(from) || (fractionOf(to) == 1 && to != from) : true);
  if (inexact && toInteger < 0 && toFraction < 0)
    decoder.fail("a rounding is missing: '.rn', '.rz', '.rm' or '.rp'");
  if (toFraction == 4 && to != Type::TF32)
    decoder.fail("'.rna' goes with '.tf32' only");
  if (to == Type::F64 && !isFloat(from) && bitsOf(from) == 64 && toFraction > 0)
    decoder.fail("a conversion of 64-bit integers to '.f64' is supported with '.rn' only");
}

void decodeConvert(Decoder &decoder) {
  const Type to = decoder.takeType();
  const Type from = decoder.takeType();
  if (to == Type::None || from == Type::None || to == Type::Pred || from == Type::TF32)
    return decoder.fail("two types are expected");
  Op &op = decoder.op;
  op.bytes = static_cast<uint8_t>(to);
  op.count = static_cast<uint8_t>(from);
  decodeRounding(decoder, to, from);
  const auto flag = [&](const char *name, uint8_t value) { op.flags |= decoder.take(name) ? value : 0; };
  flag("ftz", kFlush);
  flag("sat", kSaturate);
  flag("relu", kRelu);
  flag("satfinite", kSaturateFinite);
  const bool pair = to == Type::F16x2 || to == Type::BF16x2;
  decoder.expectOperands(pair ? 3 : 2, pair ? 3 : 2);
  bool wideTo = false, wideFrom = false;
  op.slots[0] = decoder.looseDestination(decoder.operand(0), to, wideTo);
  op.slots[1] = decoder.looseSource(decoder.operand(1), from, wideFrom);
  op.flags |= (wideTo ? kWideTo : 0) | (wideFrom ? kWideFrom : 0);
  op.immediate = 0xffffffff;
  if (const syntax::Operand &operand = decoder.operand(0); operand.kind == syntax::Operand::Kind::Register)
    if (bitsOf(decoder.kernel().registers[operand.index].type) == 16)
      op.immediate = 0xffff;
  if (pair) {
    if (from != Type::F32)
      return decoder.fail("a pair is made of two .f32");
    op.slots[2] = decoder.source(decoder.operand(2), 32, from);
  }
  const bool plain = wideTo == (bitsOf(to) == 64) && wideFrom == (bitsOf(from) == 64);
  op.run = fastHandler(op, plain);
  if (!op.run)
    op.run = pair ? convertPair : convertAny;
}

constexpr InstructionRow kRows[] = {
    {"cvt", "u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 tf32 f32 f64", decodeConvert},
};

} // namespace

std::span<const InstructionRow> convertRows() { return kRows; }

} // namespace yaglom::emulator
