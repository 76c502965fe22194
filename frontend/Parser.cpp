// Parser of declarations and bindings; the grammar rule stands above each method (language.md section 2).
// SPDX-License-Identifier: Apache-2.0
#include "frontend/ParserImpl.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom {
namespace {

constexpr std::string_view kDeclarations[] = {"dim", "sampler", "fn", "map", "attention", "loss"};
constexpr std::string_view kBindings[] = {"param", "draw", "let", "return", "shared"};

template <size_t N>
bool isOneOf(const Token &token, const std::string_view (&list)[N]) {
  return std::any_of(list, list + N, [&](std::string_view text) { return token.is(text); });
}

} // namespace

std::string describe(const Token &token) {
  if (token.kind == TokenKind::End)
    return "the end of the file";
  if (token.kind == TokenKind::Keyword)
    return fmt::format("the keyword '{}'", token.text);
  constexpr size_t longest = 40;
  return fmt::format("'{}{}'", token.text.substr(0, longest), token.text.size() > longest ? "..." : "");
}

bool Parser::accept(std::string_view text) {
  if (!peek().is(text))
    return false;
  next();
  return true;
}

bool Parser::expect(std::string_view text, std::string_view where) {
  if (accept(text))
    return true;
  failExpected(fmt::format("'{}'{}", text, where));
  return false;
}

std::nullptr_t Parser::fail(std::string message) {
  if (peek().kind != TokenKind::Invalid)
    diagnostics.error(peek().range, std::move(message));
  return nullptr;
}

std::nullptr_t Parser::failExpected(std::string_view expected) {
  return fail(fmt::format("expected {}, found {}", expected, describe(peek())));
}

bool Parser::name(ast::Identifier &out, std::string_view what) {
  if (peek().kind != TokenKind::Name) {
    failExpected(what);
    return false;
  }
  const Token &token = next();
  out = {std::string(token.text), token.range};
  return true;
}

ast::Range Parser::rangeFrom(size_t firstToken) const {
  const ast::Range &first = tokens[firstToken].range;
  return {first.source, first.begin, at > firstToken ? tokens[at - 1].range.end : first.end};
}

// file = { dim | sampler | fn | map | attention | loss } ;
void Parser::file(Parsed &out) {
  while (peek().kind != TokenKind::End) {
    currentName.clear();
    failedBinding = false;
    nesting = openNorms = 0;
    size_t first = at;
    std::optional<ast::Decl> decl = declaration();
    if (decl && !failedBinding) {
      out.file.decls.push_back(std::move(*decl));
      continue;
    }
    if (currentName.empty())
      out.broken.unnamed = true;
    else
      out.broken.names.insert(currentName);
    if (!decl) {
      if (at == first)
        next();
      skipToDeclaration();
    }
  }
}

std::optional<ast::Decl> Parser::declaration() {
  bool shared = accept("shared");
  if (shared && !peek().is("sampler"))
    return failExpected("'sampler' after 'shared'"), std::nullopt;
  if (accept("dim"))
    return dim();
  if (accept("sampler"))
    return sampler(shared);
  if (accept("fn"))
    return fn();
  if (accept("map"))
    return map();
  if (accept("attention"))
    return attention();
  if (accept("loss"))
    return loss();
  if (isOneOf(peek(), kBindings))
    return fail(fmt::format("'{}' stands only in the body of a map or an attention", peek().text)), std::nullopt;
  std::string hint = didYouMean(peek().text, {std::begin(kDeclarations), std::end(kDeclarations)});
  if (!hint.empty())
    return fail(fmt::format("unknown declaration '{}'{}", peek().text, hint)), std::nullopt;
  return failExpected("a declaration (dim, sampler, fn, map, attention or loss)"), std::nullopt;
}

bool Parser::declaredName(ast::Identifier &id) {
  if (!name(id, "a name"))
    return false;
  currentName = id.name;
  return true;
}

// dim = "dim" IDENT "=" INT ;
std::optional<ast::Decl> Parser::dim() {
  ast::DimDecl decl;
  if (!declaredName(decl.id) || !expect("="))
    return std::nullopt;
  if (peek().kind != TokenKind::Number || !peek().whole)
    return failExpected("a whole number"), std::nullopt;
  const Token &token = next();
  decl.valueRange = token.range;
  // Beyond any size; the checker reports it at its place.
  decl.value = token.number < 1e15 ? static_cast<int64_t>(token.number) : int64_t{1} << 50;
  return decl;
}

// sampler = [ "shared" ] "sampler" IDENT "=" draw ;
std::optional<ast::Decl> Parser::sampler(bool shared) {
  ast::SamplerDecl decl;
  decl.shared = shared;
  if (!declaredName(decl.id) || !expect("="))
    return std::nullopt;
  std::optional<ast::DrawSpec> spec = draw();
  if (!spec)
    return std::nullopt;
  decl.draw = std::move(*spec);
  return decl;
}

// fn = "fn" IDENT "(" IDENT { "," IDENT } ")" "=" expr ;
std::optional<ast::Decl> Parser::fn() {
  ast::FnDecl decl;
  if (!declaredName(decl.id) || !expect("("))
    return std::nullopt;
  do {
    if (!name(decl.params.emplace_back(), "a name"))
      return std::nullopt;
  } while (accept(","));
  if (!expect(")") || !expect("=") || !(decl.body = expr()))
    return std::nullopt;
  return decl;
}

// map = "map" IDENT "(" args ")" [ "->" shape ] body ;
std::optional<ast::Decl> Parser::map() {
  ast::MapDecl decl;
  if (!declaredName(decl.id) || !expect("(") || !args(decl.args) || !expect(")"))
    return std::nullopt;
  if (accept("->") && !(decl.result = shape()))
    return std::nullopt;
  std::optional<ast::Body> parsed = body();
  if (!parsed)
    return std::nullopt;
  decl.body = std::move(*parsed);
  return decl;
}

// attention = "attention" IDENT "(" args ";" args ")" body ;
std::optional<ast::Decl> Parser::attention() {
  ast::AttentionDecl decl;
  if (!declaredName(decl.id) || !expect("(") || !args(decl.queryArgs) ||
      !expect(";", " between the query side and the key side") || !args(decl.keyArgs) || !expect(")"))
    return std::nullopt;
  std::optional<ast::Body> parsed = body();
  if (!parsed)
    return std::nullopt;
  decl.body = std::move(*parsed);
  return decl;
}

// loss = "loss" IDENT "=" call ;
std::optional<ast::Decl> Parser::loss() {
  ast::LossDecl decl;
  if (!declaredName(decl.id) || !expect("="))
    return std::nullopt;
  if (peek().kind != TokenKind::Name || !peek(1).is("("))
    return failExpected("kl(...)"), std::nullopt;
  if (!(decl.call = call()))
    return std::nullopt;
  return decl;
}

// args = arg { "," arg } ;   arg = IDENT [ ":" shape ] ;
bool Parser::args(std::vector<ast::Arg> &out) {
  do {
    ast::Arg &arg = out.emplace_back();
    if (!name(arg.id, "a name"))
      return false;
    if (accept(":") && !(arg.shape = shape()))
      return false;
  } while (accept(","));
  return true;
}

// shape = "[" [ sum { "," sum } ] "]" ;
std::optional<ast::Shape> Parser::shape() {
  size_t first = at;
  ast::Shape result;
  if (!expect("["))
    return std::nullopt;
  if (!peek().is("]"))
    do {
      if (!result.sizes.emplace_back(sum()))
        return std::nullopt;
    } while (accept(","));
  if (!expect("]"))
    return std::nullopt;
  result.range = rangeFrom(first);
  return result;
}

// body = "=" expr | "{" { binding } "return" expr "}" ;
std::optional<ast::Body> Parser::body() {
  ast::Body result;
  if (accept("=")) {
    if (!(result.result = expr()))
      return std::nullopt;
    return result;
  }
  if (!accept("{"))
    return failExpected("'=' or '{'"), std::nullopt;
  if (!bindings(result))
    return std::nullopt;
  return result;
}

/// { binding } "return" expr "}": goes on at the next binding after a mistake in one.
bool Parser::bindings(ast::Body &out) {
  while (true) {
    if (accept("return")) {
      if (!(out.result = expr()))
        return false;
      return expect("}", " after the result");
    }
    if (peek().is("}"))
      return failExpected("'return'"), false;
    std::optional<ast::Binding> parsed = binding();
    if (parsed) {
      out.bindings.push_back(std::move(*parsed));
      continue;
    }
    failedBinding = true;
    nesting = openNorms = 0;
    skipToBinding();
    if (!isOneOf(peek(), kBindings))
      return false;
  }
}

// binding = [ "shared" ] "param" IDENT ":" shape ( "=" expr | "~" draw )
//         | [ "shared" ] "draw" names ":" shape "~" draw
//         | "let" names "=" expr ;
std::optional<ast::Binding> Parser::binding() {
  size_t first = at;
  ast::Binding result;
  result.shared = accept("shared");
  if (accept("param"))
    result.kind = ast::BindingKind::Param;
  else if (accept("draw"))
    result.kind = ast::BindingKind::Draw;
  else if (result.shared)
    return failExpected("'param' or 'draw' after 'shared'"), std::nullopt;
  else if (accept("let"))
    result.kind = ast::BindingKind::Let;
  else {
    std::string hint = didYouMean(peek().text, {std::begin(kBindings), std::end(kBindings)});
    if (!hint.empty())
      return fail(fmt::format("unknown statement '{}'{}", peek().text, hint)), std::nullopt;
    return failExpected("a statement (param, draw, let or return)"), std::nullopt;
  }
  if (!bindingTail(result))
    return std::nullopt;
  result.range = rangeFrom(first);
  return result;
}

bool Parser::bindingTail(ast::Binding &out) {
  if (!names(out.names))
    return false;
  if (out.kind == ast::BindingKind::Let)
    return expect("=") && (out.value = expr());
  if (out.kind == ast::BindingKind::Param && out.names.size() == 2) {
    diagnostics.error(out.names[1].range, "a param has one name; only draw and let take a pair");
    return false;
  }
  if (!expect(":", " and a shape") || !(out.shape = shape()))
    return false;
  if (out.kind == ast::BindingKind::Param && accept("="))
    return (out.value = expr()) != nullptr;
  if (!accept("~"))
    return failExpected(out.kind == ast::BindingKind::Param ? "'=' or '~'" : "'~' and a sampler"), false;
  return (out.draw = draw()).has_value();
}

// names = IDENT | "(" IDENT "," IDENT ")" ;
bool Parser::names(std::vector<ast::Identifier> &out) {
  if (!accept("("))
    return name(out.emplace_back(), "a name");
  ast::Identifier first, second;
  if (!name(first, "a name") || !expect(",") || !name(second, "a name") || !expect(")"))
    return false;
  out = {std::move(first), std::move(second)};
  return true;
}

// draw = IDENT [ "(" [ named { "," named } ] ")" ] ;
std::optional<ast::DrawSpec> Parser::draw() {
  ast::DrawSpec result;
  if (!name(result.sampler, "a sampler"))
    return std::nullopt;
  if (accept("(") && !namedList(result.options))
    return std::nullopt;
  return result;
}

/// [ named { "," named } ] ")"   where   named = IDENT "=" sum ;
bool Parser::namedList(std::vector<ast::NamedArg> &out) {
  if (accept(")"))
    return true;
  do {
    ast::Identifier id;
    if (!name(id, "an option's name") || !expect("="))
      return false;
    ast::ExprRef value = sum();
    if (!value)
      return false;
    out.push_back({std::move(id.name), id.range, std::move(value)});
  } while (accept(","));
  return expect(")");
}

/// To a keyword at the beginning of a line: in the middle of one it is more likely part of the mistake.
void Parser::skipToDeclaration() {
  auto begins = [&] {
    return peek().firstOnLine && (isOneOf(peek(), kDeclarations) || (peek().is("shared") && peek(1).is("sampler")));
  };
  while (peek().kind != TokenKind::End && !begins())
    next();
}

void Parser::skipToBinding() {
  while (peek().kind != TokenKind::End && !isOneOf(peek(), kBindings) && !isOneOf(peek(), kDeclarations) &&
         !peek().is("}"))
    next();
}

Parsed parse(std::string text, std::string name, Dialect dialect, Diagnostics &diagnostics) {
  Parsed parsed;
  parsed.file.sources.push_back({std::move(name), std::move(text), 0});
  if (parsed.file.sources[0].text.size() > kMaxFileBytes) {
    diagnostics.fileError(
        fmt::format("the file has {} bytes; a spec has at most 1 MiB", parsed.file.sources[0].text.size()));
    parsed.file.sources[0].text.clear();
    return parsed;
  }
  Parser(parsed.file.sources[0].text, 0, dialect, diagnostics).file(parsed);
  return parsed;
}

} // namespace yaglom
