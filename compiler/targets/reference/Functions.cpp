// Values and derivatives of the elementary functions; the definition that compiled code is compared with.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Functions.h"

#include <numbers>

namespace yaglom::reference {
namespace {

/// A function of <cmath> where its argument or value needs no more range than double has.
template <double (*function)(double)>
Wide plain(Wide x) {
  return function(x.toDouble());
}

Wide expm1Of(Wide x) { return x > Wide(100) ? exp(x) - 1 : plain<std::expm1>(x); }
Wide log1pOf(Wide x) { return x > Wide(0x1p100) ? log(x) : plain<std::log1p>(x); }
Wide signOf(Wide x) { return x.isNan() ? x : Wide((x > Wide(0)) - (x < Wide(0))); }
Wide reluOf(Wide x) { return x.isNegative() ? Wide(0) : x; }
Wide eluOf(Wide x) { return x.isNegative() ? expm1Of(x) : x; }
Wide eluPlusOneOf(Wide x) { return x.isNegative() ? exp(x) : x + 1; }
Wide eluSlope(Wide x, Wide) { return x.isNegative() ? exp(x) : x.isNan() ? x : Wide(1); }
Wide sigmoidOf(Wide x) { return Wide(1) / (Wide(1) + exp(-x)); }
Wide softplusOf(Wide x) { return x.isNegative() ? log1pOf(exp(x)) : x + log1pOf(exp(-x)); }

/// 1 - tanh(x)^2 without the cancellation.
Wide squaredSecant(Wide x) {
  const Wide twoCosh = exp(x) + exp(-x);
  return Wide(4) / (twoCosh * twoCosh);
}

constexpr Unary kUnary[] = {
    {"exp", [](Wide x) { return exp(x); }, [](Wide, Wide y) { return y; }},
    {"exp2", [](Wide x) { return exp2(x); }, [](Wide, Wide y) { return y * std::numbers::ln2; }},
    {"expm1", expm1Of, [](Wide x, Wide) { return exp(x); }},
    {"log", [](Wide x) { return log(x); }, [](Wide x, Wide) { return Wide(1) / x; }},
    {"log1p", log1pOf, [](Wide x, Wide) { return Wide(1) / (x + 1); }},
    {"sin", plain<std::sin>, [](Wide x, Wide) { return plain<std::cos>(x); }},
    {"cos", plain<std::cos>, [](Wide x, Wide) { return -plain<std::sin>(x); }},
    {"tan", plain<std::tan>, [](Wide, Wide y) { return y * y + 1; }},
    {"tanh", plain<std::tanh>, [](Wide x, Wide) { return squaredSecant(x); }},
    {"sqrt", [](Wide x) { return sqrt(x); }, [](Wide, Wide y) { return Wide(0.5) / y; }},
    {"rsqrt", [](Wide x) { return Wide(1) / sqrt(x); }, [](Wide x, Wide y) { return Wide(-0.5) * y / x; }},
    {"abs", [](Wide x) { return abs(x); }, [](Wide x, Wide) { return signOf(x); }},
    {"sign", signOf, [](Wide, Wide) { return Wide(0); }},
    {"erf", plain<std::erf>, [](Wide x, Wide) { return exp(-x * x) * (2 * std::numbers::inv_sqrtpi); }},
    {"relu", reluOf, [](Wide x, Wide) { return Wide(x > Wide(0) ? 1 : 0); }},
    {"elu", eluOf, eluSlope},
    {"elu + 1", eluPlusOneOf, eluSlope},
    {"sigmoid", sigmoidOf, [](Wide x, Wide y) { return y * sigmoidOf(-x); }},
    {"softplus", softplusOf, [](Wide x, Wide) { return sigmoidOf(x); }},
};

/// `first` where it is the chosen one, the mean on a tie; the values differ by at most the sign of a zero then.
template <typename Chosen>
WideDual choose(const WideDual &a, const WideDual &b, Chosen aIsChosen) {
  if (a.value.isNan() || b.value.isNan())
    return a + b;
  if (a.value == b.value)
    return {a.value, (a.tangent + b.tangent) * 0.5};
  return aIsChosen(a.value, b.value) ? a : b;
}

} // namespace

const Unary *findUnary(std::string_view name) {
  for (const Unary &function : kUnary)
    if (function.name == name)
      return &function;
  return nullptr;
}

Wide power(const Wide &x, const Wide &p) { return pow(x, p); }

WideDual power(const WideDual &x, const WideDual &p) {
  const Wide y = pow(x.value, p.value);
  Wide slope = p.value * pow(x.value, p.value - 1);
  if (p.value.isZero())
    slope = 0; // 0 * x^-1 at x = 0
  const Wide growth = x.value.isZero() ? Wide(0) : y * log(x.value);
  return {y, chain(x.tangent, slope) + chain(p.tangent, growth)};
}

Wide minimum(const Wide &a, const Wide &b) { return minimum(WideDual(a), WideDual(b)).value; }
Wide maximum(const Wide &a, const Wide &b) { return maximum(WideDual(a), WideDual(b)).value; }
WideDual minimum(const WideDual &a, const WideDual &b) {
  return choose(a, b, [](const Wide &x, const Wide &y) { return x < y; });
}
WideDual maximum(const WideDual &a, const WideDual &b) {
  return choose(a, b, [](const Wide &x, const Wide &y) { return x > y; });
}

Wide rootOfSquares(const Wide &sum) { return sqrt(sum); }
WideDual rootOfSquares(const WideDual &sum) {
  const Wide root = sqrt(sum.value);
  return {root, root.isZero() ? Wide(0) : chain(sum.tangent, Wide(0.5) / root)};
}

} // namespace yaglom::reference
