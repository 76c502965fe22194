// The lexer: names, numbers, comments, places.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Lexer.h"
#include "tests/unit/Catch.h"

using namespace yaglom;

namespace {

std::vector<Token> lex(std::string_view text, Dialect dialect = Dialect::Spec) {
  Diagnostics diagnostics;
  std::vector<Token> tokens = tokenize(text, 0, dialect, diagnostics);
  CHECK_FALSE(diagnostics.hasErrors());
  return tokens;
}

double number(std::string_view text) { return lex(text).at(0).number; }

} // namespace

TEST_CASE("the lexer tells names, keywords, numbers and symbols apart") {
  std::vector<Token> tokens = lex("let W1 = -2.5e-3 -> ~");
  REQUIRE(tokens.size() == 8);
  CHECK(tokens[0].kind == TokenKind::Keyword);
  CHECK(tokens[1].kind == TokenKind::Name);
  CHECK(tokens[1].text == "W1");
  CHECK(tokens[3].is("-"));
  CHECK(tokens[4].number == -2.5e-3 * -1);
  CHECK(tokens[5].is("->"));
  CHECK(tokens[6].is("~"));
  CHECK(tokens[7].kind == TokenKind::End);
}

TEST_CASE("numbers are read to the nearest double") {
  CHECK(number("0.1") == 0.1);
  CHECK(number("1e22") == 1e22);
  CHECK(number("4.9e-324") == 4.9e-324);
  CHECK(number("1e-400") == 0);
  CHECK(number("0.000") == 0);
  CHECK(number("123456789012345678901234567890") == 123456789012345678901234567890.0);
}

TEST_CASE("only digits make a whole number") {
  CHECK(lex("64")[0].whole);
  CHECK_FALSE(lex("64.0")[0].whole);
  CHECK_FALSE(lex("6e1")[0].whole);
}

TEST_CASE("an exponent needs digits, so that 2e is a number and a name") {
  std::vector<Token> tokens = lex("2e + 3e+x");
  CHECK(tokens[0].text == "2");
  CHECK(tokens[1].text == "e");
  CHECK(tokens[3].text == "3");
  CHECK(tokens[4].text == "e");
}

TEST_CASE("comments hold any bytes and end with their line") {
  std::vector<Token> tokens = lex("a # \xCE\xBC \xFF let\nb#");
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[1].text == "b");
  CHECK(tokens[1].firstOnLine);
}

TEST_CASE("dots belong to names in the formulas of samplers only") {
  CHECK(lex("self.0.scale.W0", Dialect::Internal)[0].text == "self.0.scale.W0");
  Diagnostics diagnostics;
  tokenize("self.W0", 0, Dialect::Spec, diagnostics);
  CHECK(diagnostics.hasErrors());
}

TEST_CASE("an empty text has one token, the end") {
  CHECK(lex("").size() == 1);
  CHECK(lex(" \r\n\t# x").size() == 1);
}
