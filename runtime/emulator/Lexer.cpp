// Cuts PTX text into words, numbers and signs.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Lexer.h"

#include <fmt/format.h>

namespace yaglom::emulator {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool startsWord(char c) { return isLetter(c) || c == '_' || c == '$' || c == '%' || c == '.'; }
bool continuesWord(char c) { return startsWord(c) || isDigit(c); }

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  Result<std::vector<Token>> run() {
    while (skipBlank()) {
      const char c = text[at];
      const std::size_t begin = at;
      if (isDigit(c)) {
        number();
        add(Token::Kind::Number, begin);
      } else if (startsWord(c)) {
        word();
        add(Token::Kind::Word, begin);
      } else if (c == '"') {
        if (!string())
          return Error(fmt::format("line {}: a string is not closed", line));
        add(Token::Kind::String, begin);
      } else if (std::string_view("{}[]()<>,;:+-*|!@=&~/").find(c) != std::string_view::npos) {
        ++at;
        add(Token::Kind::Sign, begin);
      } else {
        return Error(fmt::format("line {}: unexpected character '\\x{:02x}'", line, static_cast<unsigned char>(c)));
      }
    }
    if (unclosedComment)
      return Error(fmt::format("line {}: a comment is not closed", line));
    add(Token::Kind::End, at);
    return std::move(tokens);
  }

private:
  char peek(std::size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }

  void add(Token::Kind kind, std::size_t begin) {
    tokens.push_back({kind, text.substr(begin, at - begin), line, begin});
  }

  /// Moves to the next token; false at the end.
  bool skipBlank() {
    while (at < text.size()) {
      const char c = text[at];
      if (c == '/' && peek(1) == '/') {
        while (at < text.size() && text[at] != '\n')
          ++at;
      } else if (c == '/' && peek(1) == '*') {
        if (!blockComment())
          return false;
      } else if (c == '\n') {
        ++line, ++at;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at;
      } else {
        return true;
      }
    }
    return false;
  }

  bool blockComment() {
    const std::size_t end = text.find("*/", at + 2);
    if (end == std::string_view::npos) {
      unclosedComment = true;
      at = text.size();
      return false;
    }
    for (; at < end + 2; ++at)
      line += text[at] == '\n';
    return true;
  }

  void word() {
    while (at < text.size()) {
      if (continuesWord(text[at]))
        ++at;
      else if (text[at] == ':' && peek(1) == ':' && (isLetter(peek(2)) || isDigit(peek(2))))
        at += 2;
      else
        return;
    }
  }

  void number() {
    bool fraction = false; // a sign after 'e' belongs to a decimal fraction only: 0x1e-3 is a difference
    while (at < text.size() && (isDigit(text[at]) || isLetter(text[at]) || text[at] == '.')) {
      fraction |= text[at] == '.';
      const bool exponent = fraction && (text[at] == 'e' || text[at] == 'E') && (peek(1) == '-' || peek(1) == '+');
      at += exponent ? 2 : 1;
    }
  }

  bool string() {
    for (++at; at < text.size() && text[at] != '\n'; ++at)
      if (text[at] == '"')
        return ++at, true;
    return false;
  }

  std::string_view text;
  std::size_t at = 0;
  uint32_t line = 1;
  bool unclosedComment = false;
  std::vector<Token> tokens;
};

} // namespace

Result<std::vector<Token>> tokenize(std::string_view text) { return Lexer(text).run(); }

} // namespace yaglom::emulator
