// The recursive-descent parser's class, shared by its two files: declarations and expressions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Parser.h"

#include <initializer_list>
#include <optional>

namespace yaglom {

/// One method a grammar rule. A method that meets a mistake reports it once and returns nothing; the caller gives up too,
/// until a binding or a declaration is left, where parsing goes on.
class Parser {
public:
  Parser(std::string_view text, uint32_t source, Dialect dialect, Diagnostics &diagnostics)
      : diagnostics(diagnostics), dialect(dialect), tokens(tokenize(text, source, dialect, diagnostics)) {}

  void file(Parsed &out);

private:
  // Parser.cpp
  std::optional<ast::Decl> declaration();
  std::optional<ast::Decl> dim();
  std::optional<ast::Decl> sampler(bool shared);
  std::optional<ast::Decl> fn();
  std::optional<ast::Decl> map();
  std::optional<ast::Decl> attention();
  std::optional<ast::Decl> loss();
  bool declaredName(ast::Identifier &id);
  bool args(std::vector<ast::Arg> &out);
  std::optional<ast::Shape> shape();
  std::optional<ast::Body> body();
  bool bindings(ast::Body &out);
  std::optional<ast::Binding> binding();
  bool bindingTail(ast::Binding &out);
  bool names(std::vector<ast::Identifier> &out);
  std::optional<ast::DrawSpec> draw();
  bool namedList(std::vector<ast::NamedArg> &out);
  void skipToDeclaration();
  void skipToBinding();

  // ParserExpr.cpp
  ast::ExprRef expr();
  ast::ExprRef withOptions(ast::ExprRef call);
  std::optional<ast::Option> option();
  ast::ExprRef sum();
  ast::ExprRef product();
  ast::ExprRef unary();
  ast::ExprRef atom();
  ast::ExprRef parenthesized();
  ast::ExprRef norm();
  ast::ExprRef stack();
  ast::ExprRef call();
  bool callArgs(ast::Expr &out);
  ast::ExprRef nested(ast::ExprRef (Parser::*rule)());
  ast::ExprRef make(ast::Expr e, size_t firstToken);
  bool startsAtom() const;

  // Tokens.
  const Token &peek(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  const Token &next() { return at + 1 < tokens.size() ? tokens[at++] : tokens[at]; }
  bool accept(std::string_view text);
  bool expect(std::string_view text, std::string_view where = {});
  bool name(ast::Identifier &out, std::string_view what);
  ast::Range rangeFrom(size_t firstToken) const;
  std::nullptr_t fail(std::string message);
  std::nullptr_t failExpected(std::string_view expected);

  Diagnostics &diagnostics;
  Dialect dialect;
  std::vector<Token> tokens;
  size_t at = 0;
  uint32_t nesting = 0;
  uint32_t openNorms = 0;     ///< '|' at an operator's place closes the innermost
  std::string currentName;    ///< of the declaration being parsed, or empty before it is known
  bool failedBinding = false; ///< a binding of the current body could not be read
};

/// How a message calls a token: 'found ...'.
std::string describe(const Token &token);

} // namespace yaglom
