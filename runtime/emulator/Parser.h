// The parser's state and the parts of the grammar that several files share; internal to parsing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Lexer.h"
#include "runtime/emulator/Syntax.h"

#include <map>
#include <optional>
#include <string>

namespace yaglom::emulator::syntax {

/// Walks the tokens. The first mistake is kept; after it every method returns at once, so that callers need no checks.
class Cursor {
public:
  Cursor(std::string_view text, std::vector<Token> tokens) : text(text), tokens(std::move(tokens)) {}

  const Token &peek(std::size_t ahead = 0) const {
    return failed() ? tokens.back() : tokens[std::min(at + ahead, tokens.size() - 1)];
  }
  const Token &next();
  /// Takes the token if it is `sign`.
  bool take(std::string_view sign);
  void expect(std::string_view sign);
  /// A word that is not a directive.
  std::string name(std::string_view what);
  /// A non-negative integer of at most 64 bits.
  uint64_t unsignedInteger(std::string_view what);
  void fail(std::string_view what);
  void failAt(uint32_t line, std::string_view found, std::string_view what);
  bool failed() const { return error.has_value(); }
  Error takeError() { return std::move(*error); }
  std::string_view source(std::size_t begin, std::size_t end) const { return text.substr(begin, end - begin); }

private:
  std::string_view text;
  std::vector<Token> tokens;
  std::size_t at = 0;
  std::optional<Error> error;
};

/// An integer or fraction as PTX writes it: 12, -1, 0x1F, 12U, 0f3F800000, 0d..., 1.5. Nothing when it is none.
std::optional<Operand> parseNumber(std::string_view text);

/// `.align 16 .b8 name[4][8] = {...}` after the state space; `space` decides what is allowed.
Variable parseVariable(Cursor &cursor, Space space);

/// The body of a kernel from `{` to `}`.
void parseBody(Cursor &cursor, const File &file, Kernel &kernel);

/// The state space of a directive (".shared"), or nothing.
std::optional<Space> spaceOf(std::string_view directive);

/// Limits of what is accepted: a hostile text ends in an Error, not in exhausted memory.
inline constexpr uint64_t kMaximalVariableBytes = uint64_t{1} << 28;
inline constexpr std::size_t kMaximalRegisters = 1u << 20;
inline constexpr std::size_t kMaximalInstructions = 1u << 20;

} // namespace yaglom::emulator::syntax
