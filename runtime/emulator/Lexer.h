// Cuts PTX text into words, numbers and signs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace yaglom::emulator {

struct Token {
  enum class Kind : uint8_t { End, Word, Number, String, Sign };
  Kind kind = Kind::End;
  std::string_view text; ///< a part of the source
  uint32_t line = 0;     ///< from 1
  std::size_t offset = 0;

  bool is(std::string_view other) const { return kind != Kind::String && text == other; }
};

/// The tokens of `text`, ended by one of kind End. Comments are skipped. A word holds letters, digits, `_ $ % .` and `::`
/// ("ld.shared::cta.b32", ".reg", "%tid.x"). The Error names the line of a character that PTX has not.
Result<std::vector<Token>> tokenize(std::string_view text);

} // namespace yaglom::emulator
