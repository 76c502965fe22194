// Lexer: names, numbers, symbols; comments and blanks separate.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace yaglom {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
public:
  Lexer(std::string_view text, uint32_t source, Dialect dialect, Diagnostics &diagnostics)
      : text(text), source(source), dialect(dialect), diagnostics(diagnostics) {}

  std::vector<Token> run() {
    while (skipBlanks(), at < text.size())
      lexOne();
    uint32_t last = tokens.empty() ? 0 : tokens.back().range.end;
    tokens.push_back({.kind = TokenKind::End, .range = {source, last, last}});
    return std::move(tokens);
  }

private:
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  ast::Range rangeFrom(size_t begin) const { return {source, static_cast<uint32_t>(begin), static_cast<uint32_t>(at)}; }

  void skipBlanks() {
    for (; at < text.size(); ++at) {
      char c = text[at];
      if (c == '#')
        at = std::min(text.find('\n', at), text.size());
      if (at == text.size())
        return;
      if (text[at] == '\n')
        newLine = true;
      else if (c != ' ' && c != '\t' && c != '\r')
        return;
    }
  }

  void push(TokenKind kind, size_t begin) {
    tokens.push_back({.kind = kind,
                      .range = rangeFrom(begin),
                      .text = text.substr(begin, at - begin),
                      .firstOnLine = std::exchange(newLine, false)});
  }

  void lexOne() {
    size_t begin = at;
    if (isLetter(peek())) {
      while (isLetter(peek()) || isDigit(peek()) || (dialect == Dialect::Internal && peek() == '.'))
        ++at;
      push(isKeyword(text.substr(begin, at - begin)) ? TokenKind::Keyword : TokenKind::Name, begin);
    } else if (isDigit(peek())) {
      lexNumber();
    } else if (peek() == '-' && peek(1) == '>') {
      at += 2;
      push(TokenKind::Symbol, begin);
    } else if (std::string_view("+-*/^@|[](){},;:=~").find(peek()) != std::string_view::npos) {
      ++at;
      push(TokenKind::Symbol, begin);
    } else {
      lexUnexpected();
    }
  }

  void digits() {
    while (isDigit(peek()))
      ++at;
  }

  void lexNumber() {
    size_t begin = at;
    digits();
    bool whole = true;
    if (peek() == '.') {
      whole = false;
      ++at;
      if (!isDigit(peek()))
        diagnostics.error(rangeFrom(begin), "expected a digit after the point of a number");
      digits();
    }
    size_t sign = peek(1) == '+' || peek(1) == '-';
    if ((peek() == 'e' || peek() == 'E') && isDigit(peek(1 + sign))) {
      whole = false;
      at += 1 + sign;
      digits();
    }
    push(TokenKind::Number, begin);
    tokens.back().whole = whole;
    tokens.back().number = value(tokens.back());
  }

  double value(const Token &token) {
    double number = 0;
    auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
    if (error != std::errc::result_out_of_range)
      return number;
    // from_chars says the same of both ends: a number that is too small is 0.
    size_t exponent = token.text.find_first_of("eE");
    bool tiny = exponent != std::string_view::npos ? token.text[exponent + 1] == '-' : token.text.starts_with("0.");
    if (tiny)
      return 0;
    diagnostics.error(token.range, fmt::format("the number is too large: the largest is 1.79e308"));
    return 0;
  }

  void lexUnexpected() {
    size_t begin = at++;
    // One message for a whole UTF-8 character, and for a run of bytes that are none.
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
      ++at;
    push(TokenKind::Invalid, begin);
    unsigned char first = static_cast<unsigned char>(text[begin]);
    if (first == '.' && isDigit(peek())) {
      digits();
      tokens.back().range = rangeFrom(begin);
      tokens.back().kind = TokenKind::Number;
      diagnostics.error(rangeFrom(begin),
                        fmt::format("expected a digit before the point; write '0{}'", text.substr(begin, at - begin)));
    } else if (first >= 0x80) {
      diagnostics.error(rangeFrom(begin), "unexpected character: a spec is ASCII outside comments");
    } else if (first < 0x20 || first == 0x7F) {
      diagnostics.error(rangeFrom(begin), fmt::format("unexpected character '\\x{:02x}'", first));
    } else {
      diagnostics.error(rangeFrom(begin), fmt::format("unexpected character '{}'", text[begin]));
    }
  }

  std::string_view text;
  uint32_t source;
  Dialect dialect;
  Diagnostics &diagnostics;
  size_t at = 0;
  bool newLine = true;
  std::vector<Token> tokens;
};

} // namespace

const std::vector<std::string_view> &keywords() {
  static const std::vector<std::string_view> list = {"attention", "dim",   "draw",   "fn",      "let",    "loss",
                                                     "map",       "param", "return", "sampler", "shared", "with"};
  return list;
}

bool isKeyword(std::string_view name) {
  return std::find(keywords().begin(), keywords().end(), name) != keywords().end();
}

std::vector<Token> tokenize(std::string_view text, uint32_t source, Dialect dialect, Diagnostics &diagnostics) {
  return Lexer(text, source, dialect, diagnostics).run();
}

} // namespace yaglom
