// Arithmetic of f16, bf16 and pairs of them.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"

namespace yaglom::emulator {
namespace {

enum class Kind : uint8_t { Add, Sub, Mul, Fma, Min, Max, Abs, Neg };

constexpr uint8_t kFlush = 1, kSaturate = 2, kRelu = 4, kNan = 8, kXorSign = 16; ///< Op::flags

template <class T>
T fromBits(uint32_t bits) {
  return T{static_cast<uint16_t>(bits)};
}

/// Subnormal halves to zero; bfloat16 has no .ftz.
float flushHalf(float value) { return std::fabs(value) < 0x1p-14f ? std::copysign(0.0f, value) : value; }

/// An exact or odd-rounded double to nearest even.
template <class T>
T nearest(double value) {
  const Format format = sizeof(T) == 2 && std::is_same_v<T, Half> ? kHalf : kBfloat;
  return roundTo<T>(static_cast<float>(value == value ? roundToFormat(value, format, Rounding::Nearest) : value));
}

template <class T>
T extremum(T x, T y, bool maximum, uint8_t flags) {
  float a = toFloat(x), b = toFloat(y);
  const bool negative = std::signbit(a) != std::signbit(b);
  if (flags & kFlush)
    a = flushHalf(a), b = flushHalf(b);
  if (flags & kXorSign)
    a = std::fabs(a), b = std::fabs(b);
  float value;
  if (a != a || b != b)
    value = (flags & kNan) || (a != a && b != b) ? std::nanf("") : (a != a ? b : a);
  else if (a == b)
    value = std::signbit(a) == maximum ? b : a;
  else
    value = (a < b) == maximum ? b : a;
  if ((flags & kXorSign) && value == value)
    value = std::copysign(value, negative ? -1.0f : 1.0f);
  return roundTo<T>(value);
}

/// One operation. Sums and products of two are exact enough in float: 24 bits are twice 11 and two more.
template <Kind K, class T>
T compute(T x, T y, T z, uint8_t flags) {
  if constexpr (K == Kind::Abs)
    return T{static_cast<uint16_t>(x.bits & 0x7fff)};
  else if constexpr (K == Kind::Neg)
    return T{static_cast<uint16_t>(x.bits ^ 0x8000)};
  else if constexpr (K == Kind::Min || K == Kind::Max)
    return extremum(x, y, K == Kind::Max, flags);
  float a = toFloat(x), b = toFloat(y), c = toFloat(z);
  if (flags & kFlush)
    a = flushHalf(a), b = flushHalf(b), c = flushHalf(c);
  T made;
  if constexpr (K == Kind::Add)
    made = nearest<T>(addOdd(a, b));
  else if constexpr (K == Kind::Sub)
    made = nearest<T>(addOdd(a, -b));
  else if constexpr (K == Kind::Mul)
    made = nearest<T>(static_cast<double>(a) * b);
  else
    made = nearest<T>(addOdd(static_cast<double>(a) * b, c));
  float value = toFloat(made);
  if (flags & kFlush)
    value = flushHalf(value);
  if (flags & kSaturate)
    value = saturate(value);
  if ((flags & kRelu) && value <= 0)
    value = 0;
  return roundTo<T>(value);
}

constexpr unsigned sourcesOf(Kind kind) {
  return kind == Kind::Fma ? 3 : kind == Kind::Abs || kind == Kind::Neg ? 1 : 2;
}

template <Kind K, class T, bool Paired>
void halfwise(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint32_t out[kLanes];
  constexpr unsigned kSources = sourcesOf(K);
  const uint32_t *a = warp.words(op.slots[1]);
  const uint32_t *b = warp.words(op.slots[kSources > 1 ? 2 : 1]);
  const uint32_t *c = warp.words(op.slots[kSources > 2 ? 3 : 1]);
  uint32_t valid = kAllLanes;
  for (unsigned i = 1; i <= kSources; ++i)
    valid &= warp.validity[op.slots[i]];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    out[lane] = compute<K>(fromBits<T>(a[lane]), fromBits<T>(b[lane]), fromBits<T>(c[lane]), op.flags).bits;
    if constexpr (Paired)
      out[lane] |= uint32_t{compute<K>(fromBits<T>(a[lane] >> 16), fromBits<T>(b[lane] >> 16),
                                       fromBits<T>(c[lane] >> 16), op.flags)
                                .bits}
                   << 16;
  }
  commit(warp, op.slots[0], out, mask, valid);
}

template <Kind K>
void decodeHalf(Decoder &decoder) {
  Op &op = decoder.op;
  const Type type = decoder.type();
  const bool half = type == Type::F16 || type == Type::F16x2;
  const auto flag = [&](const char *name, uint8_t value) { op.flags |= decoder.take(name) ? value : 0; };
  if constexpr (K == Kind::Min || K == Kind::Max) {
    flag("NaN", kNan);
    if (decoder.take("xorsign")) {
      op.flags |= kXorSign;
      if (!decoder.take("abs"))
        decoder.fail("'.xorsign' goes with '.abs'");
    }
  } else if constexpr (K != Kind::Abs && K != Kind::Neg) {
    decoder.take("rn");
    if (K == Kind::Fma)
      flag("relu", kRelu);
    if (half)
      flag("sat", kSaturate);
  }
  if (half)
    flag("ftz", kFlush);
  decodeSameWidth(decoder, sourcesOf(K));
  op.run = type == Type::F16     ? halfwise<K, Half, false>
           : type == Type::F16x2 ? halfwise<K, Half, true>
           : type == Type::BF16  ? halfwise<K, Bfloat, false>
                                 : halfwise<K, Bfloat, true>;
}

constexpr std::string_view kTypes = "f16 f16x2 bf16 bf16x2";
constexpr InstructionRow kRows[] = {
    {"add", kTypes, decodeHalf<Kind::Add>}, {"sub", kTypes, decodeHalf<Kind::Sub>},
    {"mul", kTypes, decodeHalf<Kind::Mul>}, {"fma", kTypes, decodeHalf<Kind::Fma>},
    {"min", kTypes, decodeHalf<Kind::Min>}, {"max", kTypes, decodeHalf<Kind::Max>},
    {"abs", kTypes, decodeHalf<Kind::Abs>}, {"neg", kTypes, decodeHalf<Kind::Neg>},
};

} // namespace

std::span<const InstructionRow> halfRows() { return kRows; }

} // namespace yaglom::emulator
