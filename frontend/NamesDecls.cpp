// Names of declarations, arguments and bindings.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Builtins.h"
#include "frontend/NamesImpl.h"
#include "frontend/Prelude.h"
#include "frontend/Samplers.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom {
namespace {

bool isBuiltinFunction(const std::string &name, Dialect dialect) {
  const Special *special = findSpecial(name);
  return findElementary(name) || (special && (!special->internal || dialect == Dialect::Internal)) ||
         prelude().find<ast::FnDecl>(name);
}

bool isReservedWord(std::string_view name) {
  constexpr std::string_view words[] = {"d",     "e",     "pos", "len",  "pi",    "eye",   "head",
                                        "heads", "index", "O",   "grad", "state", "expect"};
  return std::find(std::begin(words), std::end(words), name) != std::end(words);
}

} // namespace

void checkNames(const ast::File &file, const BrokenNames &broken, Dialect dialect, Symbols &symbols,
                Diagnostics &diagnostics) {
  NameChecker(file, broken, dialect, symbols, diagnostics).run();
}

void NameChecker::run() {
  auto collect = [&](const std::vector<ast::Arg> &list) {
    for (const ast::Arg &arg : list)
      for (const ast::ExprRef &size : sizesOf(arg))
        if (const std::string *lone = loneName(*size))
          boundAnywhere.insert(*lone);
  };
  for (const ast::Decl &decl : tree.decls) {
    if (const auto *map = std::get_if<ast::MapDecl>(&decl))
      collect(map->args);
    if (const auto *attention = std::get_if<ast::AttentionDecl>(&decl))
      collect(attention->queryArgs), collect(attention->keyArgs);
  }
  std::set<std::string> seen;
  for (const ast::Decl &decl : tree.decls) {
    if (diagnostics.full()) {
      symbols.bad.insert(idOf(decl).name);
      continue;
    }
    size_t before = diagnostics.errorCount();
    usesBroken = false;
    locals.clear();
    later.clear();
    fileLevel(decl, seen);
    std::visit([&](const auto &d) { check(d); }, decl);
    if (diagnostics.errorCount() != before || usesBroken)
      symbols.bad.insert(idOf(decl).name);
  }
}

bool NameChecker::isBroken(const std::string &name) {
  bool result = broken.covers(name);
  usesBroken |= result;
  return result;
}

/// One namespace for the whole file.
void NameChecker::fileLevel(const ast::Decl &decl, std::set<std::string> &seen) {
  const ast::Identifier &id = idOf(decl);
  reserved(id);
  if (!seen.insert(id.name).second)
    diagnostics.error(id.range, fmt::format("'{}' is declared twice", id.name), {},
                      {{idOf(*symbols.find(id.name)).range, fmt::format("'{}' is first declared here", id.name)}});
}

void NameChecker::reserved(const ast::Identifier &id) {
  if (isReservedWord(id.name))
    diagnostics.error(id.range, fmt::format("'{}' has a meaning in the language and cannot be declared", id.name));
  else if (isBuiltinFunction(id.name, dialect))
    diagnostics.error(id.range, fmt::format("'{}' is a built-in function and cannot be declared", id.name));
  else if (findSamplerKind(id.name))
    diagnostics.error(id.range, fmt::format("'{}' is a built-in sampler and cannot be declared", id.name));
}

void NameChecker::check(const ast::DimDecl &decl) {
  if (decl.value < 1)
    diagnostics.error(decl.valueRange, "a dim is at least 1");
  else if (decl.value > INT32_MAX)
    diagnostics.error(decl.valueRange, "a dim is below 2147483648");
}

void NameChecker::check(const ast::SamplerDecl &decl) {
  owner = Owner::File;
  drawSpec(decl.draw, DrawPlace::Declaration, nullptr);
}

void NameChecker::check(const ast::FnDecl &decl) {
  owner = Owner::Fn;
  for (const ast::Identifier &param : decl.params)
    declare(param, {What::Arg, param.range});
  expr(*decl.body, Where::Value);
}

void NameChecker::check(const ast::MapDecl &decl) {
  owner = Owner::Map;
  args(decl.args, false);
  if (decl.result)
    sizes(decl.result->sizes, decl.result->range);
  body(decl.body);
}

void NameChecker::check(const ast::AttentionDecl &decl) {
  owner = Owner::Attention;
  // The widths of Q, K and V, whatever the arguments are called.
  locals.emplace("d", Local{What::Size, decl.id.range});
  locals.emplace("e", Local{What::Size, decl.id.range});
  std::vector<ast::Arg> all = decl.queryArgs;
  all.insert(all.end(), decl.keyArgs.begin(), decl.keyArgs.end());
  args(all, true);
  body(decl.body);
}

void NameChecker::check(const ast::LossDecl &decl) {
  const ast::Expr &call = *decl.call;
  if (call.name != "kl")
    return diagnostics.error(call.op, fmt::format("a loss is kl(p, q, samples = ...), found '{}'", call.name));
  arity(call, 2, 2, nullptr);
  for (const ast::ExprRef &arg : call.args) {
    const auto *sampler = arg->kind == ast::ExprKind::Name ? symbols.find<ast::SamplerDecl>(arg->name) : nullptr;
    if (sampler || (arg->kind == ast::ExprKind::Name && (arg->name == "gaussian" || isBroken(arg->name))))
      continue;
    if (arg->kind == ast::ExprKind::Name && findSamplerKind(arg->name))
      diagnostics.error(arg->op, fmt::format("'{0}' must be declared: sampler s = {0}(...)", arg->name));
    else
      diagnostics.error(arg->op, "kl takes the names of two samplers");
  }
  bool samples = false;
  for (const ast::NamedArg &named : call.named) {
    if (named.name != "samples")
      diagnostics.error(named.range,
                        fmt::format("unknown argument '{}'{}", named.name, didYouMean(named.name, {"samples"})));
    else if (std::exchange(samples, true))
      diagnostics.error(named.range, "'samples' is given twice");
    owner = Owner::File;
    expr(*named.value, Where::Option);
  }
  if (!samples)
    diagnostics.error(call.op, "kl needs samples = ..., the number of draws of the estimate");
}

/// Arguments and the dimensions that they bind (T2).
void NameChecker::args(const std::vector<ast::Arg> &list, bool attention) {
  for (const ast::Arg &arg : list) {
    bool standard = arg.id.name == "Q" || arg.id.name == "K" || arg.id.name == "V";
    if (attention && !arg.shape && !standard)
      diagnostics.error(arg.id.range, fmt::format("'{0}' needs a shape: only Q, K and V have one by themselves; "
                                                  "write {0}: [] for a scalar per token",
                                                  arg.id.name));
    for (const ast::ExprRef &size : sizesOf(arg))
      if (const std::string *lone = loneName(*size);
          lone && !symbols.find<ast::DimDecl>(*lone) && !locals.contains(*lone)) {
        ast::Identifier id{*lone, size->range};
        if (*lone == "d" || *lone == "e")
          locals.emplace(*lone, Local{What::Size, size->range});
        else
          declare(id, {What::Size, size->range});
      }
  }
  for (const ast::Arg &arg : list)
    declare(arg.id, {What::Arg, arg.id.range});
  for (const ast::Arg &arg : list) {
    if (arg.shape)
      sizes(arg.shape->sizes, arg.shape->range);
    if (attention && arg.shape && arg.shape->sizes.size() > 1)
      diagnostics.error(arg.shape->range, "an input is a vector or a scalar per token");
  }
}

void NameChecker::body(const ast::Body &body) {
  size_t before = diagnostics.errorCount();
  for (const ast::Binding &binding : body.bindings)
    for (const ast::Identifier &id : binding.names)
      later.emplace(id.name, id.range);
  for (const ast::Binding &b : body.bindings)
    if (!diagnostics.full())
      binding(b);
  expr(*body.result, Where::Value);
  // What a wrong line meant to use is not known.
  if (diagnostics.errorCount() == before)
    unused();
}

void NameChecker::binding(const ast::Binding &b) {
  if (b.shape)
    sizes(b.shape->sizes, b.shape->range);
  What what = What::Let;
  if (b.kind == ast::BindingKind::Let) {
    bool split = b.value->kind == ast::ExprKind::Call && b.value->name == "split";
    if (b.names.size() == 2 && !split)
      diagnostics.error(b.value->op, "a pair of names takes the halves of split(...)");
    if (b.names.size() == 1 && split)
      diagnostics.error(b.value->op, "split gives two halves; write let (a, b) = split(...)");
    if (split) {
      arity(*b.value, 1, 1, nullptr);
      for (const ast::ExprRef &arg : b.value->args)
        expr(*arg, Where::Value);
    } else {
      expr(*b.value, Where::Value);
    }
  } else {
    what = b.kind == ast::BindingKind::Param ? What::Param : What::Draw;
    if (b.value && b.value->kind == ast::ExprKind::Name && b.value->name == "eye") {
      if (b.shape->sizes.size() != 2)
        diagnostics.error(b.value->range, "'eye' needs a matrix");
    } else if (b.value) {
      expr(*b.value, b.shared ? Where::SharedInitial : Where::Initial);
    }
    if (b.draw)
      drawSpec(*b.draw, what == What::Param ? DrawPlace::Param : DrawPlace::Draw, &b);
  }
  for (const ast::Identifier &id : b.names) {
    later.erase(id.name);
    declare(id, {what, id.range, b.shared});
  }
}

void NameChecker::declare(const ast::Identifier &id, Local local) {
  reserved(id);
  if (const ast::Decl *decl = symbols.find(id.name)) {
    diagnostics.error(id.range, fmt::format("'{}' is declared twice: it is also {}", id.name, kindOf(*decl)), {},
                      {{idOf(*decl).range, fmt::format("'{}' is first declared here", id.name)}});
  }
  auto [place, isNew] = locals.emplace(id.name, local);
  if (!isNew)
    diagnostics.error(id.range, fmt::format("'{}' is declared twice", id.name), {},
                      {{place->second.range, fmt::format("'{}' is first declared here", id.name)}});
}

void NameChecker::sizes(const std::vector<ast::ExprRef> &list, const ast::Range &range) {
  if (list.size() > 2)
    diagnostics.error(range, fmt::format("a shape has at most two axes, found {}", list.size()));
  for (const ast::ExprRef &size : list) {
    auto lookup = [&](const std::string &name) -> std::optional<Poly> {
      if (isDimension(name))
        return Poly::name(name);
      return std::nullopt;
    };
    size_t before = diagnostics.errorCount();
    Poly value = sizeOf(*size, lookup, &diagnostics);
    if (!value.valid() && diagnostics.errorCount() == before)
      unknownDimension(*size);
    std::optional<Rational> number = value.valid() ? value.constant() : std::nullopt;
    if (number && (number->denominator != 1 || number->numerator < 1 || number->numerator > INT32_MAX))
      diagnostics.error(size->range,
                        fmt::format("a size is a positive whole number below 2147483648, found {}", value.text()));
  }
}

/// Names the dimension that a size could not be read for.
void NameChecker::unknownDimension(const ast::Expr &size) {
  auto report = [&](const std::string &name, const ast::Range &range) {
    if (isDimension(name) || isBroken(name))
      return;
    std::vector<std::string_view> candidates;
    for (const ast::Decl &decl : tree.decls)
      if (std::holds_alternative<ast::DimDecl>(decl))
        candidates.push_back(idOf(decl).name);
    for (const auto &[other, local] : locals)
      if (local.what == What::Size)
        candidates.push_back(other);
    diagnostics.error(range, fmt::format("unknown dimension '{}'{}", name, didYouMean(name, candidates)));
  };
  std::vector<const ast::Expr *> open = {&size};
  while (!open.empty()) {
    const ast::Expr *e = open.back();
    open.pop_back();
    if (e->kind == ast::ExprKind::Name)
      report(e->name, e->range);
    for (const ast::ExprRef &arg : e->args)
      open.push_back(arg.get());
  }
}

void NameChecker::drawSpec(const ast::DrawSpec &spec, DrawPlace place, const ast::Binding *binding) {
  checkDrawSpec(spec, place, binding, symbols, broken, diagnostics);
  if (!findSamplerKind(spec.sampler.name) && !symbols.find(spec.sampler.name))
    isBroken(spec.sampler.name);
  for (const ast::NamedArg &option : spec.options)
    expr(*option.value, Where::Option);
}

void NameChecker::unused() {
  for (const auto &[name, local] : locals) {
    if (local.used || local.what == What::Arg || local.what == What::Size)
      continue;
    std::string_view kind = local.what == What::Param ? "param" : local.what == What::Draw ? "draw" : "let";
    diagnostics.warning(local.range, fmt::format("unused {} '{}'", kind, name));
  }
}

} // namespace yaglom
