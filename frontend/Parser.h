// Parses phi text to a syntax tree; names, shapes and sides are the checker's business.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Lexer.h"

#include <set>
#include <string>

namespace yaglom {

/// Limits that keep hostile text from exhausting stack or time (language.md section 7).
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr uint32_t kMaxNesting = 256;
constexpr uint32_t kMaxChain = 4096;
/// Height of any expression: one longest chain below the deepest nesting.
constexpr uint32_t kMaxDepth = kMaxChain + kMaxNesting;

/// Names whose declaration could not be read: the checker says nothing of them.
struct BrokenNames {
  std::set<std::string, std::less<>> names;
  bool unnamed = false; ///< some declaration did not even show its name

  bool covers(std::string_view name) const { return unnamed || names.contains(name); }
};

struct Parsed {
  ast::File file; ///< every declaration that could be read
  BrokenNames broken;
};

/// Parses `text`. Goes on behind a mistake, so that one file can yield several messages.
Parsed parse(std::string text, std::string name, Dialect dialect, Diagnostics &diagnostics);

} // namespace yaglom
