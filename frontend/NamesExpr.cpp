// Names and calls in expressions.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Builtins.h"
#include "frontend/NamesImpl.h"
#include "frontend/Prelude.h"
#include "frontend/Samplers.h"

#include <fmt/format.h>

namespace yaglom {

using ast::ExprKind;

void NameChecker::expr(const ast::Expr &e, Where where) {
  const ast::Expr *left = &e;
  for (; isBinary(*left); left = left->args[0].get())
    expr(*left->args[1], where);
  leaf(*left, where);
}

void NameChecker::leaf(const ast::Expr &e, Where where) {
  if (e.kind == ExprKind::Name)
    return name(e, where);
  if (e.kind == ExprKind::Call)
    return call(e, where);
  for (const ast::ExprRef &arg : e.args)
    expr(*arg, where);
}

void NameChecker::call(const ast::Expr &e, Where where) {
  for (const ast::ExprRef &arg : e.args)
    expr(*arg, where);
  for (const ast::NamedArg &arg : e.named)
    diagnostics.error(arg.range, "named arguments exist only in kl");
  for (const ast::Option &option : e.options) {
    if (option.value)
      expr(*option.value, where);
    for (const ast::NamedArg &arg : option.args)
      expr(*arg.value, where);
  }
  checkOptions(e, diagnostics);

  const Special *special = findSpecial(e.name);
  if (special && special->internal && dialect != Dialect::Internal)
    special = nullptr;
  const Elementary *elementary = findElementary(e.name);
  if (e.name == "max")
    return arity(e, 1, 2, nullptr);
  if (elementary)
    return arity(e, elementary->minArgs, elementary->maxArgs, nullptr);
  if (special)
    return specialCall(e, where, *special);
  if (const auto *map = symbols.find<ast::MapDecl>(e.name)) {
    if (where != Where::Value)
      return diagnostics.error(e.op,
                               fmt::format("a map cannot be applied here: '{}' turns tokens' rows into rows", e.name));
    return arity(e, map->args.size(), map->args.size(), &map->id);
  }
  if (const ast::FnDecl *fn = symbols.findFn(e.name)) {
    bool own = symbols.find(e.name) != nullptr;
    return arity(e, fn->params.size(), fn->params.size(), own ? &fn->id : nullptr);
  }
  unknownFunction(e);
}

/// Where a function with rules of its own may stand: T6, T8, section 5.
void NameChecker::specialCall(const ast::Expr &e, Where where, const Special &special) {
  bool attends = special.function == Function::Linear || special.function == Function::SoftmaxAttention;
  if (attends && (where != Where::Value || owner == Owner::Map || owner == Owner::File))
    diagnostics.error(e.op, fmt::format("'{}' stands only in an attention, or a fn called there", e.name));
  if (special.function == Function::Kl)
    return diagnostics.error(e.op, "'kl' stands only in a loss");
  if (special.function == Function::Split)
    return diagnostics.error(e.op, "split stands only as the whole right side of let (a, b) = ...");
  arity(e, special.args, special.args, nullptr);
}

void NameChecker::unknownFunction(const ast::Expr &e) {
  if (isBroken(e.name))
    return;
  if (diagnostics.full())
    return diagnostics.error(e.op, "unknown function");
  if (const ast::Decl *decl = symbols.find(e.name))
    return diagnostics.error(e.op, fmt::format("'{}' is {}, not a function", e.name, kindOf(*decl)), {},
                             {{idOf(*decl).range, fmt::format("'{}' is declared here", e.name)}});
  if (locals.contains(e.name))
    return diagnostics.error(e.op, fmt::format("'{0}' is a value, not a function; write '*' to multiply", e.name));
  if (findSamplerKind(e.name))
    return diagnostics.error(e.op,
                             fmt::format("'{0}' is a sampler, not a function; write draw W: [m, d] ~ {0}", e.name));
  std::vector<std::string_view> candidates;
  for (const Elementary &f : elementaryFunctions())
    candidates.push_back(f.name);
  for (const Special &f : specialFunctions())
    if (!f.internal)
      candidates.push_back(f.name);
  for (const ast::File *file : {&prelude(), &tree})
    for (const ast::Decl &decl : file->decls)
      if (std::holds_alternative<ast::FnDecl>(decl) || std::holds_alternative<ast::MapDecl>(decl))
        candidates.push_back(idOf(decl).name);
  diagnostics.error(e.op, fmt::format("unknown function '{}'{}", e.name, didYouMean(e.name, candidates)));
}

void NameChecker::arity(const ast::Expr &e, size_t least, size_t most, const ast::Identifier *declared) {
  if (e.args.size() >= least && e.args.size() <= most)
    return;
  std::string expected = least == most ? fmt::format("{}", least) : fmt::format("{} or {}", least, most);
  std::vector<Note> notes;
  if (declared)
    notes.push_back({declared->range, fmt::format("'{}' is declared here", e.name)});
  diagnostics.error(
      e.op, fmt::format("'{}' takes {} argument{}, found {}", e.name, expected, most == 1 ? "" : "s", e.args.size()),
      {}, std::move(notes));
}

bool NameChecker::isDimension(const std::string &name) const {
  auto local = locals.find(name);
  if (local != locals.end())
    return local->second.what == What::Size;
  return symbols.find<ast::DimDecl>(name) || (owner == Owner::Fn && boundAnywhere.contains(name));
}

void NameChecker::name(const ast::Expr &e, Where where) {
  if (auto local = locals.find(e.name); local != locals.end() && local->second.what != What::Size) {
    local->second.used = true;
    if (where == Where::Option)
      diagnostics.error(
          e.range, fmt::format("an option of a sampler is made of numbers, dimensions and pi; '{}' is none", e.name));
    else if (where != Where::Value)
      initialName(e, where, local->second);
    return;
  }
  if (isDimension(e.name) || e.name == "pi" || (owner == Owner::Fn && (e.name == "d" || e.name == "e")))
    return;
  if (!constantName(e, where))
    unknownName(e);
}

/// A local name in an initial value: only earlier params may stand there, and only shared ones in a shared param.
void NameChecker::initialName(const ast::Expr &e, Where where, const Local &local) {
  if (local.what != What::Param)
    diagnostics.error(e.range,
                      fmt::format("an initial value is made of numbers, dimensions, pi and earlier params; "
                                  "'{}' is none",
                                  e.name),
                      {}, {{local.range, fmt::format("'{}' is declared here", e.name)}});
  else if (where == Where::SharedInitial && !local.shared)
    diagnostics.error(e.range,
                      fmt::format("a shared param cannot start from '{}', which has one value per head", e.name), {},
                      {{local.range, fmt::format("'{}' is declared here", e.name)}});
}

/// Names that the language gives a meaning; false when `e` is none of them.
bool NameChecker::constantName(const ast::Expr &e, Where where) {
  bool initial = where == Where::Initial || where == Where::SharedInitial;
  if (e.name == "pos" || e.name == "len") {
    if (where != Where::Value)
      diagnostics.error(e.range, fmt::format("'{}' belongs to a token and cannot stand here", e.name));
  } else if (e.name == "head" || e.name == "heads") {
    if (where == Where::SharedInitial)
      diagnostics.error(e.range, fmt::format("'{}' cannot stand in a shared param: it is one for all heads", e.name));
    else if (!initial)
      diagnostics.error(e.range, fmt::format("'{}' stands only in the initial value of a param", e.name));
  } else if (e.name == "index") {
    if (!initial)
      diagnostics.error(e.range, "'index' stands only in the initial value of a param");
  } else if (e.name == "eye") {
    diagnostics.error(e.range,
                      initial ? "'eye' must stand alone" : "'eye' stands only as the initial value of a param");
  } else {
    return false;
  }
  return true;
}

void NameChecker::unknownName(const ast::Expr &e) {
  if (isBroken(e.name) || (dialect == Dialect::Internal && e.name.starts_with("self.")))
    return;
  if (auto declared = later.find(e.name); declared != later.end())
    return diagnostics.error(e.range, fmt::format("'{}' is used before it is declared", e.name), {},
                             {{declared->second, fmt::format("'{}' is declared here", e.name)}});
  if (const ast::Decl *decl = symbols.find(e.name))
    return diagnostics.error(e.range, fmt::format("'{}' is {}, not a value", e.name, kindOf(*decl)), {},
                             {{idOf(*decl).range, fmt::format("'{}' is declared here", e.name)}});
  if (findElementary(e.name) || findSpecial(e.name) || prelude().find<ast::FnDecl>(e.name))
    return diagnostics.error(e.range, fmt::format("'{0}' is a function; write {0}(...)", e.name));
  // Looking for a similar name costs time that a message nobody sees is not worth.
  if (diagnostics.full())
    return diagnostics.error(e.range, "unknown name");
  std::vector<std::string_view> candidates = {"len", "pos"};
  for (const auto &[other, local] : locals)
    candidates.push_back(other);
  for (const ast::Decl &decl : tree.decls)
    if (std::holds_alternative<ast::DimDecl>(decl))
      candidates.push_back(idOf(decl).name);
  diagnostics.error(e.range, fmt::format("unknown name '{}'{}", e.name, didYouMean(e.name, candidates)));
}

} // namespace yaglom
