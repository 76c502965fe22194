// The elementary functions of the language on the interpreter's scalars, with their derivatives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Dual.h"

#include <string_view>

namespace yaglom::reference {

/// A function of one number.
struct Unary {
  std::string_view name;
  Wide (*value)(Wide x);
  /// The derivative at x, where y = value(x); at kinks as language.md section 8 says.
  Wide (*derivative)(Wide x, Wide y);

  Wide operator()(const Wide &x) const { return value(x); }
  WideDual operator()(const WideDual &x) const {
    const Wide y = value(x.value);
    return {y, x.tangent.isZero() ? Wide() : x.tangent * derivative(x.value, y)};
  }
};

/// The function of that name, or null. "elu + 1" is the sum of that form, which is exp(x) below 0.
const Unary *findUnary(std::string_view name);

/// x^p: 0^0 = 1; NaN for x < 0 and p no whole number. At x = 0 the gradient to p is 0.
Wide power(const Wide &x, const Wide &p);
WideDual power(const WideDual &x, const WideDual &p);

/// The smaller and the larger of two numbers; on a tie each gets half of the gradient. NaN if one is NaN.
Wide minimum(const Wide &a, const Wide &b);
WideDual minimum(const WideDual &a, const WideDual &b);
Wide maximum(const Wide &a, const Wide &b);
WideDual maximum(const WideDual &a, const WideDual &b);

/// A square root whose gradient at 0 is 0: of a norm.
Wide rootOfSquares(const Wide &sum);
WideDual rootOfSquares(const WideDual &sum);

} // namespace yaglom::reference
