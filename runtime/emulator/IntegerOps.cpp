// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad and the carry chain.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"

#include <algorithm>
#include <limits>

namespace yaglom::emulator {
namespace {

template <class T>
using U = std::make_unsigned_t<T>;

/// Arithmetic that wraps. The detour by 64 bits keeps products of 16-bit values out of signed int.
template <class T>
T wrap(uint64_t value) {
  return static_cast<T>(static_cast<U<T>>(value));
}

template <class T>
struct Add {
  static T apply(T a, T b) { return wrap<T>(static_cast<U<T>>(a) + static_cast<uint64_t>(static_cast<U<T>>(b))); }
};
template <class T>
struct Sub {
  static T apply(T a, T b) { return wrap<T>(static_cast<uint64_t>(static_cast<U<T>>(a)) - static_cast<U<T>>(b)); }
};
struct AddSaturated {
  static int32_t apply(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
  }
};
struct SubSaturated {
  static int32_t apply(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
  }
};
template <class T>
struct MulLow {
  static T apply(T a, T b) { return wrap<T>(static_cast<uint64_t>(static_cast<U<T>>(a)) * static_cast<U<T>>(b)); }
};
template <class T>
T highPart(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * b) >> 64);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>((static_cast<Wide>(a) * b) >> (8 * sizeof(T)));
  }
}
template <class T>
struct MulHigh {
  static T apply(T a, T b) { return highPart(a, b); }
};
template <class T>
struct Twice; // the type of double width
template <>
struct Twice<int16_t> {
  using Type = int32_t;
};
template <>
struct Twice<uint16_t> {
  using Type = uint32_t;
};
template <>
struct Twice<int32_t> {
  using Type = int64_t;
};
template <>
struct Twice<uint32_t> {
  using Type = uint64_t;
};

template <class T>
struct MulWide {
  using W = typename Twice<T>::Type;
  static W apply(T a, T b) { return static_cast<W>(static_cast<W>(a) * static_cast<W>(b)); }
};
template <class T>
struct MadLow {
  static T apply(T a, T b, T c) { return Add<T>::apply(MulLow<T>::apply(a, b), c); }
};
template <class T>
struct MadHigh {
  static T apply(T a, T b, T c) { return Add<T>::apply(highPart(a, b), c); }
};
template <class T>
struct MadWide {
  using W = typename Twice<T>::Type;
  static W apply(T a, T b, W c) { return Add<W>::apply(MulWide<T>::apply(a, b), c); }
};
struct MadHighSaturated {
  static int32_t apply(int32_t a, int32_t b, int32_t c) { return AddSaturated::apply(highPart(a, b), c); }
};
/// Division by zero gives all ones, as NVIDIA's code for it does; PTX leaves it unspecified.
template <class T>
struct Div {
  static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == -1)
        return wrap<T>(0 - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T apply(T a, T b) {
    if (b == 0)
      return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1)
        return 0;
    return static_cast<T>(a % b);
  }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct MinRelu {
  static T apply(T a, T b) { return std::max<T>(std::min(a, b), 0); }
};
template <class T>
struct MaxRelu {
  static T apply(T a, T b) { return std::max<T>(std::max(a, b), 0); }
};
template <class T>
struct Abs {
  static T apply(T a) { return a < 0 ? wrap<T>(0 - static_cast<uint64_t>(a)) : a; }
};
template <class T>
struct Neg {
  static T apply(T a) { return wrap<T>(0 - static_cast<uint64_t>(a)); }
};
template <class T>
struct Sad {
  static T apply(T a, T b, T c) { return Add<T>::apply(c, a < b ? Sub<T>::apply(b, a) : Sub<T>::apply(a, b)); }
};
template <class T>
struct Mul24 {
  static T extend(T a) {
    return std::is_signed_v<T> ? static_cast<T>(static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8)
                               : static_cast<T>(static_cast<uint32_t>(a) & 0xffffffu);
  }
  static T apply(T a, T b) { return wrap<T>(static_cast<uint64_t>(static_cast<int64_t>(extend(a)) * extend(b))); }
};
template <class T>
struct Mad24 {
  static T apply(T a, T b, T c) { return Add<T>::apply(Mul24<T>::apply(a, b), c); }
};
/// The dot product of four bytes each, added to c.
template <bool SignedA, bool SignedB>
struct Dp4a {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const int32_t x = SignedA ? static_cast<int8_t>(a >> shift) : static_cast<int32_t>(a >> shift & 255);
      const int32_t y = SignedB ? static_cast<int8_t>(b >> shift) : static_cast<int32_t>(b >> shift & 255);
      c += static_cast<uint32_t>(x * y);
    }
    return c;
  }
};

/// Handler flags of the carry chain.
constexpr uint8_t kCarryIn = 1, kCarryOut = 2, kSubtract = 4;

template <class T>
void carryChain(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) Storage<T> out[kLanes];
  const Storage<T> *a = lanesOf<T>(warp, op.slots[1]);
  const Storage<T> *b = lanesOf<T>(warp, op.slots[2]);
  uint32_t carry = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto y = op.flags & kSubtract ? static_cast<T>(~b[lane]) : static_cast<T>(b[lane]);
    const bool borrowed = warp.carry >> lane & 1; // CC.CF holds the borrow after a subtraction
    const bool in = op.flags & kSubtract ? !(op.flags & kCarryIn && borrowed) : (op.flags & kCarryIn && borrowed);
    const unsigned __int128 sum = static_cast<unsigned __int128>(static_cast<T>(a[lane])) + y + in;
    out[lane] = static_cast<T>(sum);
    const bool over = sum >> (8 * sizeof(T)) != 0;
    carry |= static_cast<uint32_t>(op.flags & kSubtract ? !over : over) << lane;
  }
  uint32_t valid = warp.validity[op.slots[1]] & warp.validity[op.slots[2]];
  if (op.flags & kCarryIn)
    valid &= warp.carryValid;
  if (op.flags & kCarryOut) {
    warp.carry = (warp.carry & ~mask) | (carry & mask);
    warp.carryValid = (warp.carryValid & ~mask) | (valid & mask);
  }
  commit(warp, op.slots[0], out, mask, valid);
}

void decodeCarry(Decoder &decoder, uint8_t flags) {
  if (flags & kCarryOut || decoder.take("cc"))
    flags |= kCarryOut;
  decodeSameWidth(decoder, 2);
  decoder.op.flags = flags;
  decoder.op.run = bitsOf(decoder.type()) == 64 ? carryChain<uint64_t> : carryChain<uint32_t>;
}

void decodeAddSub(Decoder &decoder, bool subtract) {
  const uint8_t flag = subtract ? kSubtract : 0;
  if (bitsOf(decoder.type()) >= 32 && decoder.take("cc"))
    return decodeCarry(decoder, flag | kCarryOut);
  decodeSameWidth(decoder, 2);
  if (decoder.type() == Type::S32 && decoder.take("sat"))
    decoder.op.run = subtract ? lanewise<SubSaturated> : lanewise<AddSaturated>;
  else
    decoder.op.run = subtract ? pickInteger<Sub>(decoder.type()) : pickInteger<Add>(decoder.type());
}
void decodeAdd(Decoder &decoder) { decodeAddSub(decoder, false); }
void decodeSub(Decoder &decoder) { decodeAddSub(decoder, true); }
void decodeAddc(Decoder &decoder) { decodeCarry(decoder, kCarryIn); }
void decodeSubc(Decoder &decoder) { decodeCarry(decoder, kCarryIn | kSubtract); }

template <template <class> class F>
Handler pickWide(Type type) {
  switch (type) {
  case Type::U16:
    return lanewise<F<uint16_t>>;
  case Type::S16:
    return lanewise<F<int16_t>>;
  case Type::U32:
    return lanewise<F<uint32_t>>;
  case Type::S32:
    return lanewise<F<int32_t>>;
  default:
    return nullptr;
  }
}

/// mul and mad: .lo, .hi or .wide; the result and the addend of .wide have twice the width.
void decodeProduct(Decoder &decoder, bool add) {
  enum { Low, High, Wide };
  const int part = decoder.requireOneOf({"lo", "hi", "wide"});
  const Type type = decoder.type();
  const unsigned bits = bitsOf(type);
  const unsigned outer = part == Wide ? 2 * bits : bits;
  decoder.expectOperands(add ? 4 : 3, add ? 4 : 3);
  Op &op = decoder.op;
  op.slots[1] = decoder.source(decoder.operand(1), bits);
  op.slots[2] = decoder.source(decoder.operand(2), bits);
  if (part == Wide && bits == 64)
    return decoder.fail("there is no product of 128 bits");
  op.slots[0] = decoder.destination(decoder.operand(0), outer);
  if (add)
    op.slots[3] = decoder.source(decoder.operand(3), outer);
  if (part == Wide)
    op.run = add ? pickWide<MadWide>(type) : pickWide<MulWide>(type);
  else if (part == High && add && type == Type::S32 && decoder.take("sat"))
    op.run = lanewise<MadHighSaturated>;
  else if (part == High)
    op.run = add ? pickInteger<MadHigh>(type) : pickInteger<MulHigh>(type);
  else
    op.run = add ? pickInteger<MadLow>(type) : pickInteger<MulLow>(type);
}
void decodeMul(Decoder &decoder) { decodeProduct(decoder, false); }
void decodeMad(Decoder &decoder) { decodeProduct(decoder, true); }

template <template <class> class F, std::size_t Sources>
void decodePlain(Decoder &decoder) {
  decodeSameWidth(decoder, Sources);
  decoder.op.run = pickInteger<F>(decoder.type());
}

template <template <class> class F>
Handler pickSigned(Type type) {
  return type == Type::S16 ? lanewise<F<int16_t>> : type == Type::S32 ? lanewise<F<int32_t>> : lanewise<F<int64_t>>;
}
template <template <class> class F>
void decodeUnary(Decoder &decoder) {
  decodeSameWidth(decoder, 1);
  decoder.op.run = pickSigned<F>(decoder.type());
}

template <template <class> class F, template <class> class Relu>
void decodeMinMax(Decoder &decoder) {
  decodeSameWidth(decoder, 2);
  decoder.op.run =
      decoder.type() == Type::S32 && decoder.take("relu") ? lanewise<Relu<int32_t>> : pickInteger<F>(decoder.type());
}

template <template <class> class F, std::size_t Sources>
void decode24(Decoder &decoder) {
  decoder.requireOneOf({"lo"});
  decodeSameWidth(decoder, Sources);
  decoder.op.run = decoder.type() == Type::S32 ? lanewise<F<int32_t>> : lanewise<F<uint32_t>>;
}

/// dp4a.atype.btype: the table finds it by btype.
void decodeDp4a(Decoder &decoder) {
  const Type first = decoder.takeType();
  if (first != Type::U32 && first != Type::S32)
    return decoder.fail("two types of 32 bits are expected");
  decodeSameWidth(decoder, 3);
  const bool a = first == Type::S32, b = decoder.type() == Type::S32;
  decoder.op.run = a ? (b ? lanewise<Dp4a<true, true>> : lanewise<Dp4a<true, false>>)
                     : (b ? lanewise<Dp4a<false, true>> : lanewise<Dp4a<false, false>>);
}

constexpr std::string_view kAll = "u16 u32 u64 s16 s32 s64";
constexpr std::string_view kSigned = "s16 s32 s64";
constexpr std::string_view kLong = "u32 s32 u64 s64";
constexpr InstructionRow kRows[] = {
    {"add", kAll, decodeAdd},
    {"sub", kAll, decodeSub},
    {"addc", kLong, decodeAddc},
    {"subc", kLong, decodeSubc},
    {"mul", kAll, decodeMul},
    {"mad", kAll, decodeMad},
    {"mul24", "u32 s32", decode24<Mul24, 2>},
    {"mad24", "u32 s32", decode24<Mad24, 3>},
    {"dp4a", "u32 s32", decodeDp4a},
    {"sad", kAll, decodePlain<Sad, 3>},
    {"div", kAll, decodePlain<Div, 2>},
    {"rem", kAll, decodePlain<Rem, 2>},
    {"min", kAll, decodeMinMax<Min, MinRelu>},
    {"max", kAll, decodeMinMax<Max, MaxRelu>},
    {"abs", kSigned, decodeUnary<Abs>},
    {"neg", kSigned, decodeUnary<Neg>},
};

} // namespace

std::span<const InstructionRow> integerRows() { return kRows; }

} // namespace yaglom::emulator
