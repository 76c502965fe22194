// Declarations of the C++ builder: each is converted to the syntax tree that the parser would have made.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/BuilderImpl.h"
#include "frontend/Check.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom {

using Where = std::source_location;

namespace builder {

/// The place of a C++ line as a range: a source without text.
ast::Range Scope::range(Where where) {
  auto [place, isNew] = sources.try_emplace({where.file_name(), where.line()}, 0);
  if (isNew) {
    auto known = std::find_if(file->sources.begin(), file->sources.end(), [&](const ast::Source &s) {
      return s.line == where.line() && s.name == where.file_name();
    });
    place->second = static_cast<uint32_t>(known - file->sources.begin());
    if (known == file->sources.end())
      file->sources.push_back({where.file_name(), "", std::max<uint32_t>(where.line(), 1)});
  }
  return {place->second, 0, 0};
}

ast::Identifier Scope::identifier(const std::string &name, Where where) {
  bool good = !name.empty() && !(name[0] >= '0' && name[0] <= '9') && !isKeyword(name);
  for (char c : name)
    good &= c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (good)
    return {name, range(where)};
  file->mistakes.push_back({range(where), fmt::format("'{}' cannot be a name", name)});
  return {"invalid", range(where)};
}

ast::ExprRef Scope::convert(const Expr &value) {
  // Depth first without recursion: a chain may be thousands of operators deep.
  std::vector<const Node *> open = {value.node().get()};
  while (!open.empty()) {
    const Node *node = open.back();
    size_t before = open.size();
    auto need = [&](const NodeRef &arg) {
      if (!done.contains(arg.get()))
        open.push_back(arg.get());
    };
    for (const NodeRef &arg : node->args)
      need(arg);
    for (const Option &option : node->options) {
      if (option.value)
        need(option.value);
      for (const Named &arg : option.args)
        need(arg.value);
    }
    if (open.size() != before)
      continue;
    open.pop_back();
    if (!done.contains(node))
      done[node] = convertOne(*node);
  }
  keep.push_back(value.node());
  return done.at(value.node().get());
}

ast::ExprRef Scope::convertOne(const Node &node) {
  ast::Expr result{.kind = node.kind, .range = range(node.where), .op = range(node.where), .number = node.number};
  if (!node.mistake.empty())
    file->mistakes.push_back({result.range, node.mistake});
  if (node.kind == ast::ExprKind::Name || node.kind == ast::ExprKind::Call)
    result.name = identifier(node.name, node.where).name;
  for (const NodeRef &arg : node.args)
    result.args.push_back(done.at(arg.get()));
  for (const Option &option : node.options)
    result.options.push_back(convertOption(option));
  result.depth = node.depth;
  return std::make_shared<const ast::Expr>(std::move(result));
}

ast::Option Scope::convertOption(const Option &option) {
  ast::Option result;
  result.name = option.name;
  result.range = range(option.where);
  if (option.value)
    result.value = done.at(option.value.get());
  result.hasParentheses = !option.args.empty();
  for (const Named &arg : option.args)
    result.args.push_back({arg.name, range(arg.where), done.at(arg.value.get())});
  return result;
}

ast::Shape Scope::shape(const std::vector<Expr> &sizes, Where where) {
  ast::Shape result;
  result.range = range(where);
  for (const Expr &size : sizes)
    result.sizes.push_back(convert(size));
  return result;
}

ast::DrawSpec Scope::drawSpec(const Sampler &sampler, Where where) {
  ast::DrawSpec result;
  result.sampler = identifier(sampler.name(), where);
  for (const auto &[name, value] : sampler.options())
    result.options.push_back({name, range(value.node()->where), convert(value)});
  return result;
}

ast::Binding &Scope::bind(ast::BindingKind kind, const std::vector<std::string> &names, Where where) {
  ast::Binding &binding = body.bindings.emplace_back();
  binding.kind = kind;
  binding.range = range(where);
  for (const std::string &name : names)
    binding.names.push_back(identifier(name, where));
  return binding;
}

} // namespace builder

namespace {

using builder::Scope;

Expr nameOf(const std::string &name, Where where) { return Expr(Dim(name), where); }

Expr bindParam(Scope &scope, bool shared, const std::string &name, const std::vector<Expr> &shape, const Expr *initial,
               const Sampler *from, Where where) {
  ast::Shape converted = scope.shape(shape, where);
  ast::ExprRef value = initial ? scope.convert(*initial) : nullptr;
  ast::Binding &binding = scope.bind(ast::BindingKind::Param, {name}, where);
  binding.shared = shared;
  binding.shape = std::move(converted);
  binding.value = std::move(value);
  if (from)
    binding.draw = scope.drawSpec(*from, where);
  return nameOf(name, where);
}

void bindDraw(Scope &scope, bool shared, const std::vector<std::string> &names, const std::vector<Expr> &shape,
              const Sampler &from, Where where) {
  ast::Shape converted = scope.shape(shape, where);
  ast::DrawSpec spec = scope.drawSpec(from, where);
  ast::Binding &binding = scope.bind(ast::BindingKind::Draw, names, where);
  binding.shared = shared;
  binding.shape = std::move(converted);
  binding.draw = std::move(spec);
}

void bindLet(Scope &scope, const std::vector<std::string> &names, const Expr &value, Where where) {
  ast::ExprRef converted = scope.convert(value);
  scope.bind(ast::BindingKind::Let, names, where).value = std::move(converted);
}

/// What a body adds to the spec would be lost when the declaration around it is added.
void forbidNested(bool nested, Scope &scope, Where where) {
  if (nested)
    scope.file->mistakes.push_back(
        {scope.range(where), "the body of a declaration cannot add another declaration to the spec"});
}

} // namespace

MapScope::MapScope(std::shared_ptr<Scope> scope) : scope(std::move(scope)) {}

Expr MapScope::d(Where where) const { return nameOf("d", where); }
Expr MapScope::e(Where where) const { return nameOf("e", where); }

Expr MapScope::param(const std::string &name, const std::vector<Expr> &shape, const Expr &initial, Where where) {
  return bindParam(*scope, false, name, shape, &initial, nullptr, where);
}
Expr MapScope::param(const std::string &name, const std::vector<Expr> &shape, const Sampler &from, Where where) {
  return bindParam(*scope, false, name, shape, nullptr, &from, where);
}
Expr MapScope::sharedParam(const std::string &name, const std::vector<Expr> &shape, const Expr &initial, Where where) {
  return bindParam(*scope, true, name, shape, &initial, nullptr, where);
}
Expr MapScope::sharedParam(const std::string &name, const std::vector<Expr> &shape, const Sampler &from, Where where) {
  return bindParam(*scope, true, name, shape, nullptr, &from, where);
}

Expr MapScope::draw(const std::string &name, const std::vector<Expr> &shape, const Sampler &from, Where where) {
  bindDraw(*scope, false, {name}, shape, from, where);
  return nameOf(name, where);
}
Expr MapScope::sharedDraw(const std::string &name, const std::vector<Expr> &shape, const Sampler &from, Where where) {
  bindDraw(*scope, true, {name}, shape, from, where);
  return nameOf(name, where);
}
std::pair<Expr, Expr> MapScope::drawPair(const std::string &first, const std::string &second,
                                         const std::vector<Expr> &shape, const Sampler &from, Where where) {
  bindDraw(*scope, false, {first, second}, shape, from, where);
  return {nameOf(first, where), nameOf(second, where)};
}

Expr MapScope::let(const std::string &name, const Expr &value, Where where) {
  bindLet(*scope, {name}, value, where);
  return nameOf(name, where);
}
std::pair<Expr, Expr> MapScope::split(const std::string &first, const std::string &second, const Expr &value,
                                      Where where) {
  bindLet(*scope, {first, second}, call("split", {value}, where), where);
  return {nameOf(first, where), nameOf(second, where)};
}

void MapScope::returns(const std::vector<Expr> &shape, Where where) { scope->result = scope->shape(shape, where); }

AttentionScope::AttentionScope(std::shared_ptr<Scope> inner, Where where)
    : Q(nameOf("Q", where)), K(nameOf("K", where)), V(nameOf("V", where)), scope(inner), body(std::move(inner)) {}

Expr AttentionScope::queryInput(const std::string &name, const std::vector<Expr> &shape, Where where) {
  scope->queryArgs.push_back({scope->identifier(name, where), scope->shape(shape, where)});
  return nameOf(name, where);
}
Expr AttentionScope::keyInput(const std::string &name, const std::vector<Expr> &shape, Where where) {
  scope->keyArgs.push_back({scope->identifier(name, where), scope->shape(shape, where)});
  return nameOf(name, where);
}

Spec::Spec() : tree(std::make_shared<const ast::File>()) {}

Dim Spec::dim(const std::string &name, int64_t value, Where where) {
  auto file = std::make_shared<ast::File>(*tree);
  Scope scope(file.get());
  file->decls.push_back(ast::DimDecl{scope.identifier(name, where), value, scope.range(where)});
  file->checked = false;
  tree = std::move(file);
  return Dim(name);
}

Sampler Spec::declareSampler(const std::string &name, const Sampler &kind, bool shared, Where where) {
  auto file = std::make_shared<ast::File>(*tree);
  Scope scope(file.get());
  file->decls.push_back(ast::SamplerDecl{scope.identifier(name, where), shared, scope.drawSpec(kind, where)});
  file->checked = false;
  tree = std::move(file);
  return Sampler(name, {});
}
Sampler Spec::sampler(const std::string &name, const Sampler &kind, Where where) {
  return declareSampler(name, kind, false, where);
}
Sampler Spec::sharedSampler(const std::string &name, const Sampler &kind, Where where) {
  return declareSampler(name, kind, true, where);
}

Map Spec::map(const std::string &name, const std::function<Expr(MapScope &, Expr)> &body, Where where) {
  return map(
      name, {Arg("x")}, [&](MapScope &scope, const std::vector<Expr> &args) { return body(scope, args[0]); }, where);
}

Map Spec::map(const std::string &name, const std::vector<Arg> &args,
              const std::function<Expr(MapScope &, const std::vector<Expr> &)> &body, Where where) {
  auto file = std::make_shared<ast::File>(*tree);
  auto scope = std::make_shared<Scope>(file.get());
  ast::MapDecl decl;
  decl.id = scope->identifier(name, where);
  std::vector<Expr> values;
  for (const Arg &arg : args) {
    ast::Arg &added = decl.args.emplace_back();
    added.id = scope->identifier(arg.name, where);
    if (arg.shape)
      added.shape = scope->shape(*arg.shape, where);
    values.push_back(nameOf(arg.name, where));
  }
  MapScope outer(scope);
  auto before = tree;
  scope->body.result = scope->convert(body(outer, values));
  forbidNested(before != tree, *scope, where);
  decl.body = std::move(scope->body);
  decl.result = std::move(scope->result);
  file->decls.push_back(std::move(decl));
  file->checked = false;
  tree = std::move(file);
  return Map(name);
}

void Spec::attention(const std::string &name, const std::function<Expr(AttentionScope &)> &body, Where where) {
  auto file = std::make_shared<ast::File>(*tree);
  auto scope = std::make_shared<Scope>(file.get());
  ast::AttentionDecl decl;
  decl.id = scope->identifier(name, where);
  scope->queryArgs = {{scope->identifier("Q", where), std::nullopt}};
  scope->keyArgs = {{scope->identifier("K", where), std::nullopt}, {scope->identifier("V", where), std::nullopt}};
  AttentionScope outer(scope, where);
  auto before = tree;
  scope->body.result = scope->convert(body(outer));
  forbidNested(before != tree, *scope, where);
  decl.queryArgs = std::move(scope->queryArgs);
  decl.keyArgs = std::move(scope->keyArgs);
  decl.body = std::move(scope->body);
  file->decls.push_back(std::move(decl));
  file->checked = false;
  tree = std::move(file);
}

void Spec::loss(const std::string &name, const Sampler &p, const Sampler &q, const Expr &samples, Where where) {
  auto file = std::make_shared<ast::File>(*tree);
  Scope scope(file.get());
  ast::Expr kl{.kind = ast::ExprKind::Call, .range = scope.range(where), .op = scope.range(where), .name = "kl"};
  for (const Sampler *sampler : {&p, &q})
    kl.args.push_back(scope.convert(nameOf(sampler->name(), where)));
  kl.named.push_back({"samples", scope.range(where), scope.convert(samples)});
  file->decls.push_back(ast::LossDecl{scope.identifier(name, where), std::make_shared<const ast::Expr>(std::move(kl))});
  file->checked = false;
  tree = std::move(file);
}

Result<void> Spec::check() {
  auto file = std::make_shared<ast::File>(*tree);
  Diagnostics diagnostics;
  yaglom::check(*file, {}, Dialect::Spec, diagnostics);
  warningText = diagnostics.render(file->sources);
  if (diagnostics.hasErrors())
    return Error(warningText);
  file->checked = true;
  tree = std::move(file);
  return {};
}

} // namespace yaglom
