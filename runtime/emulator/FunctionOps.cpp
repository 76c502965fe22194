// Elementary functions: rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh. Computed in double and rounded once: nearer to the exact value
// than the bounds that PTX states for the approximate forms (docs/emulator.md lists them).
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lanes.h"

namespace yaglom::emulator {
namespace {

enum class Function : uint8_t { Rcp, Sqrt, Rsqrt, Ex2, Lg2, Sin, Cos, Tanh };

template <Function F>
double evaluate(double x) {
  switch (F) {
  case Function::Rcp:
    return 1 / x;
  case Function::Sqrt:
    return std::sqrt(x);
  case Function::Rsqrt:
    return 1 / std::sqrt(x);
  case Function::Ex2:
    return std::exp2(x);
  case Function::Lg2:
    return std::log2(x);
  case Function::Sin:
    return std::sin(x);
  case Function::Cos:
    return std::cos(x);
  case Function::Tanh:
    return std::tanh(x);
  }
  return x;
}

template <Function F, bool Flush>
struct Single {
  static float apply(float a) {
    if (Flush)
      a = flush(a);
    const float value = static_cast<float>(evaluate<F>(a));
    return canonical(Flush ? flush(value) : value);
  }
};
template <Function F>
struct Double {
  static double apply(double a) { return canonical(evaluate<F>(a)); }
};
/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 work on the upper 32 bits and leave the lower ones zero.
template <Function F>
struct UpperHalf {
  static constexpr uint64_t kUpper = 0xffffffff00000000ull;
  static double clean(double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value) & kUpper;
    return std::bit_cast<double>((bits & 0x7ff0000000000000ull) ? bits : bits & 0x8000000000000000ull);
  }
  static double apply(double a) {
    const double value = canonical(evaluate<F>(clean(a)));
    return value == value ? clean(value) : std::bit_cast<double>(kNaN64);
  }
};

template <Function F, class T>
uint16_t half(uint32_t bits, bool flushes) {
  constexpr Format kFormat = std::is_same_v<T, Half> ? kHalf : kBfloat;
  float a = toFloat(T{static_cast<uint16_t>(bits)});
  if (flushes)
    a = flush(a);
  const double value = evaluate<F>(a);
  float rounded = static_cast<float>(value == value ? roundToFormat(value, kFormat, Rounding::Nearest) : value);
  if (flushes)
    rounded = flush(rounded);
  return roundTo<T>(rounded).bits;
}
template <Function F, class T, bool Paired>
void halfFunction(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint32_t out[kLanes];
  const uint32_t *a = warp.words(op.slots[1]);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    out[lane] = half<F, T>(a[lane], op.flags);
    if (Paired)
      out[lane] |= uint32_t{half<F, T>(a[lane] >> 16, op.flags)} << 16;
  }
  commit(warp, op.slots[0], out, mask, warp.validity[op.slots[1]]);
}

/// rcp and sqrt with a stated rounding. The f64 forms other than to nearest are refused when decoding.
template <Function F>
void rounded(Warp &warp, const Op &op, uint32_t mask) {
  alignas(64) uint32_t out[kLanes];
  const uint32_t *a = warp.words(op.slots[1]);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    float x = std::bit_cast<float>(a[lane]);
    x = op.flags ? flush(x) : x;
    const double odd = F == Function::Rcp ? divideOdd(1.0f, x) : squareRootOdd(x);
    float value = static_cast<float>(roundToFormat(odd, kSingle, static_cast<Rounding>(op.mode)));
    value = op.flags ? flush(value) : value;
    out[lane] = std::bit_cast<uint32_t>(canonical(value));
  }
  commit(warp, op.slots[0], out, mask, warp.validity[op.slots[1]]);
}

template <Function F>
void decodeApproximate(Decoder &decoder) {
  const Type type = decoder.type();
  if (!decoder.take("approx"))
    decoder.fail("'.approx' is missing");
  const bool flushes = decoder.take("ftz");
  decodeSameWidth(decoder, 1);
  decoder.op.flags = flushes;
  if constexpr (F == Function::Ex2 || F == Function::Tanh) {
    if (type == Type::F16)
      decoder.op.run = halfFunction<F, Half, false>;
    else if (type == Type::F16x2)
      decoder.op.run = halfFunction<F, Half, true>;
    else if (type == Type::BF16)
      decoder.op.run = halfFunction<F, Bfloat, false>;
    else if (type == Type::BF16x2)
      decoder.op.run = halfFunction<F, Bfloat, true>;
  }
  if (type == Type::F32)
    decoder.op.run = flushes ? lanewise<Single<F, true>> : lanewise<Single<F, false>>;
  else if (type == Type::F64)
    decoder.op.run = flushes ? lanewise<UpperHalf<F>> : lanewise<Double<F>>;
}

template <Function F>
void decodeRounded(Decoder &decoder) {
  const int rounding = decoder.takeOneOf({"rn", "rz", "rm", "rp"});
  if (rounding < 0)
    return decodeApproximate<F>(decoder);
  decoder.op.mode = static_cast<uint8_t>(rounding);
  decoder.op.flags = decoder.type() == Type::F32 && decoder.take("ftz");
  decodeSameWidth(decoder, 1);
  if (decoder.type() == Type::F32)
    decoder.op.run = rounded<F>;
  else if (rounding == 0)
    decoder.op.run = lanewise<Double<F>>;
  else
    decoder.fail("'.f64' is supported with '.rn' only");
}

constexpr InstructionRow kRows[] = {
    {"rcp", "f32 f64", decodeRounded<Function::Rcp>},
    {"sqrt", "f32 f64", decodeRounded<Function::Sqrt>},
    {"rsqrt", "f32 f64", decodeApproximate<Function::Rsqrt>},
    {"ex2", "f32 f16 f16x2 bf16 bf16x2", decodeApproximate<Function::Ex2>},
    {"lg2", "f32", decodeApproximate<Function::Lg2>},
    {"sin", "f32", decodeApproximate<Function::Sin>},
    {"cos", "f32", decodeApproximate<Function::Cos>},
    {"tanh", "f32 f16 f16x2 bf16 bf16x2", decodeApproximate<Function::Tanh>},
};

} // namespace

std::span<const InstructionRow> functionRows() { return kRows; }

} // namespace yaglom::emulator
