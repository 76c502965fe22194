// Parser of expressions; the grammar rule stands above each method (language.md section 2).
// SPDX-License-Identifier: Apache-2.0
#include "frontend/ParserImpl.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace yaglom {
namespace {

using ast::ExprKind;

bool isCallThatTakesOptions(const ast::Expr &e) {
  return e.kind == ExprKind::Call && (e.name == "linear" || e.name == "softmax_attention");
}

} // namespace

/// Completes `e`: its range from `firstToken` on, its height.
ast::ExprRef Parser::make(ast::Expr e, size_t firstToken) {
  e.range = rangeFrom(firstToken);
  for (const ast::ExprRef &arg : e.args)
    e.depth = std::max(e.depth, arg->depth + 1);
  for (const ast::NamedArg &arg : e.named)
    e.depth = std::max(e.depth, arg.value->depth + 1);
  if (e.depth > kMaxDepth) {
    diagnostics.error(e.op,
                      fmt::format("the expression is too deep: more than {} operators below each other", kMaxDepth));
    return nullptr;
  }
  return std::make_shared<const ast::Expr>(std::move(e));
}

/// One level deeper: brackets, calls, and the operands of '-' and '^'.
ast::ExprRef Parser::nested(ast::ExprRef (Parser::*rule)()) {
  if (nesting == kMaxNesting)
    return fail(fmt::format("expressions are nested deeper than {}", kMaxNesting));
  ++nesting;
  ast::ExprRef result = (this->*rule)();
  --nesting;
  return result;
}

bool Parser::startsAtom() const {
  const Token &token = peek();
  if (token.kind == TokenKind::Name || token.kind == TokenKind::Number)
    return true;
  return token.is("(") || token.is("[") || (token.is("|") && openNorms == 0);
}

// expr = sum [ "with" option { "," option } ] ;   (T13)
ast::ExprRef Parser::expr() {
  size_t first = at;
  ast::ExprRef value = sum();
  if (!value || !peek().is("with"))
    return value;
  bool bare =
      isCallThatTakesOptions(*value) && value->range.begin == tokens[first].range.begin && value->options.empty();
  if (!bare)
    return fail("'with' must follow a bare linear(...) or softmax_attention(...)");
  next();
  return withOptions(std::move(value));
}

ast::ExprRef Parser::withOptions(ast::ExprRef callExpr) {
  ast::Expr result = *callExpr;
  do {
    std::optional<ast::Option> parsed = option();
    if (!parsed)
      return nullptr;
    if (parsed->value)
      result.depth = std::max(result.depth, parsed->value->depth + 1);
    for (const ast::NamedArg &arg : parsed->args)
      result.depth = std::max(result.depth, arg.value->depth + 1);
    result.options.push_back(std::move(*parsed));
  } while (accept(","));
  result.range.end = tokens[at - 1].range.end;
  return std::make_shared<const ast::Expr>(std::move(result));
}

// option = IDENT [ "=" sum | "(" [ named { "," named } ] ")" ] ;
std::optional<ast::Option> Parser::option() {
  ast::Option result;
  ast::Identifier id;
  if (!name(id, "an option"))
    return std::nullopt;
  result.name = std::move(id.name);
  result.range = id.range;
  if (accept("=") && !(result.value = sum()))
    return std::nullopt;
  if (!result.value && accept("(")) {
    result.hasParentheses = true;
    if (!namedList(result.args))
      return std::nullopt;
  }
  return result;
}

// sum = product { ( "+" | "-" ) product } ;
ast::ExprRef Parser::sum() {
  size_t first = at;
  ast::ExprRef left = product();
  for (uint32_t chain = 1; left && (peek().is("+") || peek().is("-")); ++chain) {
    if (chain > kMaxChain)
      return fail(fmt::format("more than {} operators in one chain", kMaxChain));
    const Token &op = next();
    ast::ExprRef right = product();
    if (!right)
      return nullptr;
    left = make({.kind = op.text == "+" ? ExprKind::Add : ExprKind::Subtract, .op = op.range, .args = {left, right}},
                first);
  }
  return left;
}

// product = unary { ( "*" | "/" | "@" ) unary } ;
ast::ExprRef Parser::product() {
  size_t first = at;
  ast::ExprRef left = unary();
  for (uint32_t chain = 1; left && (peek().is("*") || peek().is("/") || peek().is("@")); ++chain) {
    if (chain > kMaxChain)
      return fail(fmt::format("more than {} operators in one chain", kMaxChain));
    const Token &op = next();
    ast::ExprRef right = unary();
    if (!right)
      return nullptr;
    ExprKind kind = op.text == "*" ? ExprKind::Multiply : op.text == "/" ? ExprKind::Divide : ExprKind::MatVec;
    left = make({.kind = kind, .op = op.range, .args = {left, right}}, first);
  }
  if (left && startsAtom() && !(peek().kind == TokenKind::Name && peek().firstOnLine))
    return fail("expected an operator; write '*' to multiply");
  return left;
}

// unary = "-" unary | atom [ "^" unary ] ;
ast::ExprRef Parser::unary() {
  size_t first = at;
  ast::Range op = peek().range;
  if (accept("-")) {
    ast::ExprRef operand = nested(&Parser::unary);
    return operand ? make({.kind = ExprKind::Negate, .op = op, .args = {operand}}, first) : nullptr;
  }
  ast::ExprRef base = atom();
  op = peek().range;
  if (!base || !accept("^"))
    return base;
  ast::ExprRef exponent = nested(&Parser::unary);
  return exponent ? make({.kind = ExprKind::Power, .op = op, .args = {base, exponent}}, first) : nullptr;
}

// atom = NUMBER | IDENT | call | "(" expr ")" | "|" sum "|" | "[" sum { ";" sum } "]" ;
ast::ExprRef Parser::atom() {
  size_t first = at;
  const Token &token = peek();
  if (token.kind == TokenKind::Number) {
    next();
    return make({.kind = ExprKind::Number, .op = token.range, .number = token.number}, first);
  }
  if (token.kind == TokenKind::Name) {
    if (peek(1).is("("))
      return nested(&Parser::call);
    next();
    return make({.kind = ExprKind::Name, .op = token.range, .name = std::string(token.text)}, first);
  }
  if (token.is("("))
    return nested(&Parser::parenthesized);
  if (token.is("|"))
    return nested(&Parser::norm);
  if (token.is("["))
    return nested(&Parser::stack);
  return failExpected("a value");
}

ast::ExprRef Parser::parenthesized() {
  next();
  // Inside parentheses a '|' opens again: those of the norm around them wait.
  uint32_t outerNorms = std::exchange(openNorms, 0);
  ast::ExprRef value = expr();
  openNorms = outerNorms;
  return value && expect(")") ? value : nullptr;
}

ast::ExprRef Parser::norm() {
  size_t first = at;
  ast::Range op = next().range;
  ++openNorms;
  ast::ExprRef operand = sum();
  --openNorms;
  if (!operand || !expect("|"))
    return nullptr;
  return make({.kind = ExprKind::Norm, .op = op, .args = {operand}}, first);
}

ast::ExprRef Parser::stack() {
  size_t first = at;
  ast::Expr result{.kind = ExprKind::Stack, .op = next().range};
  uint32_t outerNorms = std::exchange(openNorms, 0);
  do {
    if (!result.args.emplace_back(sum()))
      return nullptr;
  } while (accept(";"));
  openNorms = outerNorms;
  if (peek().is(","))
    return fail("expected ';' between the entries of a stack, found ','");
  return expect("]") ? make(std::move(result), first) : nullptr;
}

// call = IDENT "(" [ carg { "," carg } ] ")" ;
ast::ExprRef Parser::call() {
  size_t first = at;
  const Token &callee = next();
  next();
  ast::Expr result{.kind = ExprKind::Call, .op = callee.range, .name = std::string(callee.text)};
  uint32_t outerNorms = std::exchange(openNorms, 0);
  bool ok = callArgs(result);
  openNorms = outerNorms;
  return ok ? make(std::move(result), first) : nullptr;
}

/// [ carg { "," carg } ] ")"   where   carg = [ IDENT "=" ] sum ;
bool Parser::callArgs(ast::Expr &out) {
  if (accept(")"))
    return true;
  do {
    bool named = peek().kind == TokenKind::Name && peek(1).is("=");
    ast::Identifier id;
    if (named) {
      name(id, "a name");
      next();
    }
    ast::ExprRef value = sum();
    if (!value)
      return false;
    if (peek().is("with"))
      return fail("an argument with 'with' needs its own parentheses"), false;
    if (named)
      out.named.push_back({std::move(id.name), id.range, std::move(value)});
    else if (!out.named.empty())
      return diagnostics.error(value->range, "a positional argument cannot follow a named one"), false;
    else
      out.args.push_back(std::move(value));
  } while (accept(","));
  return expect(")");
}

} // namespace yaglom
