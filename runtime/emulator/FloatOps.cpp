// Floating-point arithmetic of 32 and 64 bits: add, sub, mul, fma, div, min, max, abs, neg, copysign, testp.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"

#include <cfenv>

namespace yaglom::emulator {
namespace {

enum class Kind : uint8_t { Add, Sub, Mul, Fma, Div };

constexpr uint8_t kFlush = 1, kSaturate = 2; ///< Op::flags

template <bool Flush>
float in(float value) {
  return Flush ? flush(value) : value;
}
template <bool Flush, bool Saturate>
float out(float value) {
  if (Saturate)
    return saturate(in<Flush>(value));
  return canonical(in<Flush>(value));
}

template <Kind K, class T>
T compute(T a, T b, T c) {
  switch (K) {
  case Kind::Add:
    return a + b;
  case Kind::Sub:
    return a - b;
  case Kind::Mul:
    return a * b;
  case Kind::Fma:
    return std::fma(a, b, c);
  case Kind::Div:
    return a / b;
  }
  return a;
}

template <Kind K, bool Flush, bool Saturate>
struct Single {
  static float apply(float a, float b) { return out<Flush, Saturate>(compute<K>(in<Flush>(a), in<Flush>(b), 0.0f)); }
};
template <bool Flush, bool Saturate>
struct Single<Kind::Fma, Flush, Saturate> {
  static float apply(float a, float b, float c) {
    return out<Flush, Saturate>(std::fma(in<Flush>(a), in<Flush>(b), in<Flush>(c)));
  }
};
template <Kind K>
struct Double {
  static double apply(double a, double b) { return canonical(compute<K>(a, b, 0.0)); }
};
template <>
struct Double<Kind::Fma> {
  static double apply(double a, double b, double c) { return canonical(std::fma(a, b, c)); }
};

/// A sum of zeros of different signs is -0 when rounding down only (IEEE 754, 6.3).
double signedZero(double sum, double a, double b, Rounding rounding) {
  return sum == 0 && a == -b && a != 0 && rounding == Rounding::Down                                        ? -0.0
         : sum == 0 && a == 0 && b == 0 && std::signbit(a) != std::signbit(b) && rounding == Rounding::Down ? -0.0
                                                                                                            : sum;
}

template <Kind K>
float roundedSingle(float a, float b, float c, Rounding rounding) {
  double exact = 0; // or rounded to odd
  const double product = static_cast<double>(a) * b;
  if constexpr (K == Kind::Add)
    exact = signedZero(addOdd(a, b), a, b, rounding);
  else if constexpr (K == Kind::Sub)
    exact = signedZero(addOdd(a, -b), a, -b, rounding);
  else if constexpr (K == Kind::Mul)
    exact = product;
  else if constexpr (K == Kind::Fma)
    exact = signedZero(addOdd(product, c), product, c, rounding);
  else
    exact = divideOdd(a, b);
  return static_cast<float>(roundToFormat(exact, kSingle, rounding));
}

/// The processor's rounding mode, for as long as this lives.
class RoundingScope {
public:
  explicit RoundingScope(Rounding rounding) : before(std::fegetround()) {
    std::fesetround(rounding == Rounding::Zero   ? FE_TOWARDZERO
                    : rounding == Rounding::Down ? FE_DOWNWARD
                    : rounding == Rounding::Up   ? FE_UPWARD
                                                 : FE_TONEAREST);
  }
  ~RoundingScope() { std::fesetround(before); }
  RoundingScope(const RoundingScope &) = delete;
  RoundingScope &operator=(const RoundingScope &) = delete;

private:
  int before;
};

template <Kind K>
double roundedDouble(double a, double b, double c, Rounding rounding) {
  const RoundingScope scope(rounding);
  // volatile: neither operands nor result may be moved across the change of the mode
  volatile double x = a, y = b, z = c;
  volatile double result = compute<K, double>(x, y, z);
  return result;
}

/// A handler for roundings other than to nearest.
template <Kind K, class T>
void rounded(Warp &warp, const Op &op, uint32_t mask) {
  constexpr unsigned kSources = K == Kind::Fma ? 3 : 2;
  alignas(64) Storage<T> result[kLanes] = {};
  const auto rounding = static_cast<Rounding>(op.mode);
  uint32_t valid = kAllLanes;
  for (unsigned i = 0; i < kSources; ++i)
    valid &= warp.validity[op.slots[1 + i]];
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const unsigned lane = std::countr_zero(rest);
    T values[3] = {};
    for (unsigned i = 0; i < kSources; ++i)
      values[i] = fromStorage<T>(lanesOf<T>(warp, op.slots[1 + i])[lane]);
    if constexpr (sizeof(T) == 8) {
      result[lane] = toStorage(canonical(roundedDouble<K>(values[0], values[1], values[2], rounding)));
    } else {
      const bool flushes = op.flags & kFlush;
      if (flushes)
        for (T &value : values)
          value = flush(value);
      float value = roundedSingle<K>(values[0], values[1], values[2], rounding);
      value = flushes ? flush(value) : value;
      result[lane] = toStorage(op.flags & kSaturate ? saturate(value) : canonical(value));
    }
  }
  commit(warp, op.slots[0], result, mask, valid);
}

template <Kind K>
Handler pickSingle(bool flushes, bool saturates) {
  return flushes ? (saturates ? lanewise<Single<K, true, true>> : lanewise<Single<K, true, false>>)
                 : (saturates ? lanewise<Single<K, false, true>> : lanewise<Single<K, false, false>>);
}

template <Kind K>
void decodeArithmetic(Decoder &decoder) {
  const int rounding = decoder.takeOneOf({"rn", "rz", "rm", "rp"}, 0);
  Op &op = decoder.op;
  op.mode = static_cast<uint8_t>(rounding);
  if (K == Kind::Div && decoder.type() == Type::F32 && rounding == 0)
    decoder.takeOneOf({"approx", "full"}); // at least as exact as either asks for
  const bool single = decoder.type() == Type::F32;
  const bool flushes = single && decoder.take("ftz");
  const bool saturates = single && K != Kind::Div && decoder.take("sat");
  op.flags = (flushes ? kFlush : 0) | (saturates ? kSaturate : 0);
  decodeSameWidth(decoder, K == Kind::Fma ? 3 : 2);
  if (rounding != 0)
    op.run = single ? rounded<K, float> : rounded<K, double>;
  else
    op.run = single ? pickSingle<K>(flushes, saturates) : lanewise<Double<K>>;
}

/// min and max: a NaN yields to a number, unless .NaN; -0 is less than +0.
template <class T, bool Maximum, bool Flush, bool Nan, bool XorSign>
struct Extremum {
  static T apply(T a, T b) {
    if constexpr (Flush)
      a = flush(a), b = flush(b);
    T value;
    const bool negative = std::signbit(a) != std::signbit(b);
    if constexpr (XorSign)
      a = std::fabs(a), b = std::fabs(b);
    if (a != a || b != b)
      value = Nan || (a != a && b != b) ? canonical(std::numeric_limits<T>::quiet_NaN()) : (a != a ? b : a);
    else if (a == b)
      value = std::signbit(a) == Maximum ? b : a;
    else
      value = (a < b) == Maximum ? b : a;
    if constexpr (XorSign)
      value = value == value ? std::copysign(value, negative ? T(-1) : T(1)) : value;
    return value;
  }
};
template <bool Maximum, bool Flush, bool Nan>
Handler pickXorSign(bool xorSign) {
  return xorSign ? lanewise<Extremum<float, Maximum, Flush, Nan, true>>
                 : lanewise<Extremum<float, Maximum, Flush, Nan, false>>;
}
template <bool Maximum>
void decodeExtremum(Decoder &decoder) {
  const bool flushes = decoder.take("ftz");
  const bool nan = decoder.take("NaN");
  const bool xorSign = decoder.take("xorsign");
  if (xorSign && !decoder.take("abs"))
    decoder.fail("'.xorsign' goes with '.abs'");
  decodeSameWidth(decoder, 2);
  if (decoder.type() == Type::F64) {
    if (flushes || nan || xorSign)
      decoder.fail("'.f64' has no such modifier");
    decoder.op.run = lanewise<Extremum<double, Maximum, false, false, false>>;
    return;
  }
  decoder.op.run =
      flushes ? (nan ? pickXorSign<Maximum, true, true>(xorSign) : pickXorSign<Maximum, true, false>(xorSign))
              : (nan ? pickXorSign<Maximum, false, true>(xorSign) : pickXorSign<Maximum, false, false>(xorSign));
}

template <class T, bool Flush, bool Negate>
struct SignChange {
  static T apply(T a) {
    if constexpr (Flush)
      a = flush(a);
    return Negate ? -a : std::fabs(a);
  }
};
template <bool Negate>
void decodeSignChange(Decoder &decoder) {
  const bool flushes = decoder.type() == Type::F32 && decoder.take("ftz");
  decodeSameWidth(decoder, 1);
  decoder.op.run = decoder.type() == Type::F64 ? lanewise<SignChange<double, false, Negate>>
                   : flushes                   ? lanewise<SignChange<float, true, Negate>>
                                               : lanewise<SignChange<float, false, Negate>>;
}

/// The sign of a, the magnitude of b.
template <class T>
struct CopySign {
  static T apply(T a, T b) { return std::copysign(b, a); }
};
void decodeCopySign(Decoder &decoder) {
  decodeSameWidth(decoder, 2);
  decoder.op.run = decoder.type() == Type::F64 ? lanewise<CopySign<double>> : lanewise<CopySign<float>>;
}

template <class T>
bool testProperty(T value, int property) {
  switch (property) {
  case 0:
    return std::isfinite(value);
  case 1:
    return std::isinf(value);
  case 2:
    return value == value;
  case 3:
    return value != value;
  case 4:
    return std::isnormal(value);
  default:
    return value == 0 || std::fpclassify(value) == FP_SUBNORMAL;
  }
}
template <class T>
void test(Warp &warp, const Op &op, uint32_t mask) {
  uint32_t value = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    value |= static_cast<uint32_t>(testProperty(fromStorage<T>(lanesOf<T>(warp, op.slots[1])[lane]), op.mode)) << lane;
  warp.setPredicate(op.slots[0], mask, value, warp.validity[op.slots[1]]);
}
void decodeTest(Decoder &decoder) {
  decoder.expectOperands(2, 2);
  decoder.op.mode =
      static_cast<uint8_t>(decoder.requireOneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}));
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), 1);
  decoder.op.slots[1] = decoder.source(decoder.operand(1), bitsOf(decoder.type()), decoder.type());
  decoder.op.run = decoder.type() == Type::F64 ? test<double> : test<float>;
}

constexpr InstructionRow kRows[] = {
    {"add", "f32 f64", decodeArithmetic<Kind::Add>}, {"sub", "f32 f64", decodeArithmetic<Kind::Sub>},
    {"mul", "f32 f64", decodeArithmetic<Kind::Mul>}, {"fma", "f32 f64", decodeArithmetic<Kind::Fma>},
    {"mad", "f32 f64", decodeArithmetic<Kind::Fma>}, {"div", "f32 f64", decodeArithmetic<Kind::Div>},
    {"min", "f32 f64", decodeExtremum<false>},       {"max", "f32 f64", decodeExtremum<true>},
    {"abs", "f32 f64", decodeSignChange<false>},     {"neg", "f32 f64", decodeSignChange<true>},
    {"copysign", "f32 f64", decodeCopySign},         {"testp", "f32 f64", decodeTest},
};

} // namespace

std::span<const InstructionRow> floatRows() { return kRows; }

} // namespace yaglom::emulator
