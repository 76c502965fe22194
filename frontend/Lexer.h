// Turns the text of a spec into tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Diagnostics.h"

#include <string_view>
#include <vector>

namespace yaglom {

/// Invalid: what could not be read and was reported.
enum class TokenKind { End, Name, Keyword, Number, Symbol, Invalid };

struct Token {
  TokenKind kind = TokenKind::End;
  ast::Range range = {};
  std::string_view text = {}; ///< of the source
  double number = 0;          ///< Number
  bool whole = false;         ///< Number: written without a fraction or an exponent
  bool firstOnLine = false;

  bool is(std::string_view symbolOrKeyword) const {
    return (kind == TokenKind::Symbol || kind == TokenKind::Keyword) && text == symbolOrKeyword;
  }
};

/// Whether text is a spec by a user, or the formula of a sampler, which may say more (Samplers.h).
enum class Dialect { Spec, Internal };

bool isKeyword(std::string_view name);
/// Every keyword, for suggestions.
const std::vector<std::string_view> &keywords();

/// All tokens of `text`; the last one is End and stands behind the last token. Reports characters and numbers that
/// cannot be read, and goes on behind them.
std::vector<Token> tokenize(std::string_view text, uint32_t source, Dialect dialect, Diagnostics &diagnostics);

} // namespace yaglom
