// Comparisons: setp and set, with a second predicate combined, for integers and all floating-point types.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"

namespace yaglom::emulator {
namespace {

/// The unordered forms (equ, ...) are true when an operand is NaN.
enum Comparison : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
enum Combine : uint8_t { Plain, WithAnd, WithOr, WithXor };

constexpr uint8_t kCombineMask = 3, kNegateC = 4, kBothHalves = 8, kFlushes = 32; ///< Op::flags

template <class T, uint8_t C, bool Flush>
struct Compare {
  static bool apply(T x, T y) {
    if constexpr (!std::is_integral_v<T> && !std::is_same_v<T, double>)
      return ordered(Flush ? flush(toFloat(x)) : toFloat(x), Flush ? flush(toFloat(y)) : toFloat(y));
    else
      return ordered(x, y);
  }
  template <class V>
  static bool ordered(V a, V b) {
    const bool nan = a != a || b != b;
    switch (C) {
    case Eq:
      return a == b;
    case Ne:
      return !nan && a != b;
    case Lt:
      return a < b;
    case Le:
      return a <= b;
    case Gt:
      return a > b;
    case Ge:
      return a >= b;
    case Equ:
      return nan || a == b;
    case Neu:
      return nan || a != b;
    case Ltu:
      return nan || a < b;
    case Leu:
      return nan || a <= b;
    case Gtu:
      return nan || a > b;
    case Geu:
      return nan || a >= b;
    case Num:
      return !nan;
    default:
      return nan;
    }
  }
};

using Comparer = void (*)(Warp &warp, const Op &op, uint32_t &value, uint32_t &valid);

template <class T, bool Flush, std::size_t... C>
Comparer pickComparison(uint8_t comparison, std::index_sequence<C...>) {
  static constexpr Comparer kAll[] = {compareLanes<Compare<T, static_cast<uint8_t>(C), Flush>>...};
  return kAll[comparison];
}
template <class T, bool Flush = false>
Comparer floats(uint8_t comparison) {
  return pickComparison<T, Flush>(comparison, std::make_index_sequence<14>());
}
template <class T>
Comparer integers(uint8_t comparison) {
  return pickComparison<T, false>(comparison, std::make_index_sequence<6>());
}

Comparer pick(Type type, uint8_t comparison, bool flushes) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return integers<uint16_t>(comparison);
  case Type::S16:
    return integers<int16_t>(comparison);
  case Type::B32:
  case Type::U32:
    return integers<uint32_t>(comparison);
  case Type::S32:
    return integers<int32_t>(comparison);
  case Type::B64:
  case Type::U64:
    return integers<uint64_t>(comparison);
  case Type::S64:
    return integers<int64_t>(comparison);
  case Type::F32:
    return flushes ? floats<float, true>(comparison) : floats<float>(comparison);
  case Type::F64:
    return floats<double>(comparison);
  case Type::F16:
  case Type::F16x2:
    return floats<Half>(comparison);
  default:
    return floats<Bfloat>(comparison);
  }
}

uint32_t combine(uint8_t flags, uint32_t value, uint32_t c) {
  switch (flags & kCombineMask) {
  case WithAnd:
    return value & c;
  case WithOr:
    return value | c;
  case WithXor:
    return value ^ c;
  default:
    return value;
  }
}

/// slots: p, q, a, b, c. The comparison's function is found again by type and mode: both fit in the operation.
struct Compared {
  uint32_t value = 0;    ///< combined
  uint32_t inverted = 0; ///< of !(a cmp b), combined
  uint32_t valid = 0;
};

Compared evaluate(Warp &warp, const Op &op) {
  Compared made;
  uint32_t value = 0;
  const bool flushes = op.flags & kFlushes;
  pick(static_cast<Type>(op.bytes), op.mode, flushes)(warp, op, value, made.valid);
  uint32_t c = 0;
  if (op.flags & kCombineMask) {
    c = warp.predicates[op.slots[4]] ^ (op.flags & kNegateC ? kAllLanes : 0);
    made.valid &= warp.predicateValidity[op.slots[4]];
  }
  made.value = combine(op.flags, value, c);
  made.inverted = combine(op.flags, ~value, c);
  return made;
}

void setPredicate(Warp &warp, const Op &op, uint32_t mask) {
  const Compared made = evaluate(warp, op);
  warp.setPredicate(op.slots[0], mask, made.value, made.valid);
  if (op.count == 2)
    warp.setPredicate(op.slots[1], mask, made.inverted, made.valid);
}

/// The upper halves of two pairs, compared: their registers are shifted into scratch slots first.
Compared evaluateUpper(Warp &warp, const Op &op) {
  Op shifted = op;
  for (unsigned i = 0; i < 2; ++i) {
    shifted.slots[2 + i] = op.slots[5 + i];
    const uint32_t *from = warp.words(op.slots[2 + i]);
    uint32_t *to = warp.words(shifted.slots[2 + i]);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      to[lane] = from[lane] >> 16;
    warp.validity[shifted.slots[2 + i]] = warp.validity[op.slots[2 + i]];
  }
  return evaluate(warp, shifted);
}

/// setp of pairs: p from the lower halves, q from the upper ones.
void setPredicatePair(Warp &warp, const Op &op, uint32_t mask) {
  const Compared low = evaluate(warp, op);
  const Compared high = evaluateUpper(warp, op);
  warp.setPredicate(op.slots[0], mask, low.value, low.valid);
  if (op.count == 2)
    warp.setPredicate(op.slots[1], mask, high.value, high.valid);
}

/// set: all ones, or 1.0 of the destination's type.
void setValue(Warp &warp, const Op &op, uint32_t mask) {
  const Compared low = evaluate(warp, op);
  alignas(64) uint32_t out[kLanes];
  const auto yes = static_cast<uint32_t>(op.immediate);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    out[lane] = low.value >> lane & 1 ? yes : 0;
  if (op.flags & kBothHalves) {
    const Compared high = evaluateUpper(warp, op);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      out[lane] = (out[lane] & 0xffff) | (high.value >> lane & 1 ? yes & 0xffff0000u : 0);
  }
  commit(warp, op.slots[0], out, mask, low.valid);
}

void decodeComparison(Decoder &decoder, std::size_t sourcesFrom) {
  Op &op = decoder.op;
  const Type type = decoder.type();
  const int comparison =
      decoder.takeOneOf({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  // lo, ls, hi and hs are the unsigned names of lt, le, gt and ge.
  const int unsignedName = comparison < 0 ? decoder.takeOneOf({"lo", "ls", "hi", "hs"}) : -1;
  if (comparison < 0 && unsignedName < 0)
    return decoder.fail("the comparison is missing");
  if (comparison >= Equ && !isFloat(type))
    return decoder.fail("integers have no unordered comparison");
  op.mode = static_cast<uint8_t>(comparison >= 0 ? comparison : Lt + unsignedName);
  op.flags |= static_cast<uint8_t>(decoder.takeOneOf({"and", "or", "xor"}) + 1);
  if (isFloat(type) && type != Type::F64 && decoder.take("ftz") && type == Type::F32)
    op.flags |= kFlushes;
  op.bytes = static_cast<uint8_t>(type);
  const unsigned bits = bitsOf(type);
  op.slots[2] = decoder.source(decoder.operand(sourcesFrom), bits, type);
  op.slots[3] = decoder.source(decoder.operand(sourcesFrom + 1), bits, type);
  const bool combines = op.flags & kCombineMask;
  decoder.expectOperands(combines ? 4 : 3, combines ? 4 : 3);
  if (combines) {
    bool negated = false;
    op.slots[4] = decoder.predicate(decoder.operand(3), negated);
    op.flags |= negated ? kNegateC : 0;
  }
  if (type == Type::F16x2 || type == Type::BF16x2) {
    op.slots[5] = decoder.scratch(false);
    op.slots[6] = decoder.scratch(false);
  }
}

void decodeSetPredicate(Decoder &decoder) {
  Op &op = decoder.op;
  decodeComparison(decoder, 1);
  const syntax::Operand &to = decoder.operand(0);
  const bool two = !to.elements.empty();
  op.slots[0] = decoder.destination(to, 1);
  op.slots[1] = two ? decoder.destination(to.elements.front(), 1) : 0;
  op.count = two ? 2 : 1;
  const bool pair = decoder.type() == Type::F16x2 || decoder.type() == Type::BF16x2;
  op.run = pair ? setPredicatePair : setPredicate;
}

/// set.cmp.dtype.stype: the table finds it by stype.
void decodeSetValue(Decoder &decoder) {
  const Type to = decoder.takeType();
  Op &op = decoder.op;
  switch (to) {
  case Type::U32:
  case Type::S32:
    op.immediate = -1;
    break;
  case Type::U16:
  case Type::S16:
    op.immediate = 0xffff;
    break;
  case Type::F32:
    op.immediate = std::bit_cast<int32_t>(1.0f);
    break;
  case Type::F16:
    op.immediate = 0x3c00;
    break;
  case Type::BF16:
    op.immediate = 0x3f80;
    break;
  case Type::F16x2:
    op.immediate = 0x3c003c00;
    break;
  case Type::BF16x2:
    op.immediate = 0x3f803f80;
    break;
  default:
    return decoder.fail("a type of the result and one of the operands are expected");
  }
  decodeComparison(decoder, 1);
  if (decoder.type() == Type::F16x2 || decoder.type() == Type::BF16x2)
    op.flags |= kBothHalves;
  op.slots[0] = decoder.destination(decoder.operand(0), bitsOf(to));
  op.run = setValue;
}

constexpr std::string_view kTypes = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64";
constexpr InstructionRow kRows[] = {
    {"setp", kTypes, decodeSetPredicate},
    {"set", kTypes, decodeSetValue},
};

} // namespace

std::span<const InstructionRow> compareRows() { return kRows; }

} // namespace yaglom::emulator
