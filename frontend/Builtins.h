// The one table of the functions that the language knows without a declaration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace yaglom {

/// A function of numbers, applied entry by entry. dialect/Pointwise.td has a record of the same name for each.
struct Elementary {
  std::string_view name;
  int minArgs;
  int maxArgs;
  bool positive;                   ///< no result is below 0, whatever the arguments (T12)
  double (*value)(double, double); ///< for constants; the second argument only where there are two
};

std::span<const Elementary> elementaryFunctions();
const Elementary *findElementary(std::string_view name);

enum class Function { Sum, Mean, Max, Split, Outer, Linear, SoftmaxAttention, Kl, Slice, Component, Orthogonalize };

/// A function that is no formula of the language and not entry by entry.
struct Special {
  std::string_view name;
  Function function;
  int args;
  bool internal; ///< only in the formulas of samplers
};

std::span<const Special> specialFunctions();
const Special *findSpecial(std::string_view name);

/// Functions of the prelude that take a vector only; checked at the call, so that no message points into the prelude.
bool takesVector(std::string_view preludeFunction);

} // namespace yaglom
