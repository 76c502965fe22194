// Lookup of file-level names, and sizes as polynomials.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Symbols.h"
#include "frontend/Prelude.h"

#include <fmt/format.h>

#include <cmath>

namespace yaglom {
namespace {

using ast::ExprKind;

class SizeReader {
public:
  SizeReader(const DimLookup &lookup, Diagnostics *diagnostics) : lookup(lookup), diagnostics(diagnostics) {}

  Poly read(const ast::Expr &e) {
    std::vector<const ast::Expr *> chain;
    const ast::Expr *left = &e;
    for (; isBinary(*left); left = left->args[0].get())
      chain.push_back(left);
    Poly value = leaf(*left);
    for (; !chain.empty() && value.valid(); chain.pop_back())
      value = combine(*chain.back(), value, read(*chain.back()->args[1]));
    return value;
  }

private:
  Poly fail(const ast::Range &range, std::string message) {
    if (diagnostics)
      diagnostics->error(range, std::move(message));
    return Poly::invalid();
  }

  Poly leaf(const ast::Expr &e) {
    switch (e.kind) {
    case ExprKind::Number:
      if (std::optional<Rational> number = Rational::from(e.number))
        return Poly(*number);
      return fail(e.range, "a size is made of whole numbers and dimensions");
    case ExprKind::Name: {
      std::optional<Poly> value = lookup(e.name);
      return value ? *value : Poly::invalid();
    }
    case ExprKind::Negate:
      return Poly(0) - read(*e.args[0]);
    case ExprKind::Power:
      return power(e);
    default:
      return fail(e.op, "a size is a polynomial in dimension names");
    }
  }

  Poly power(const ast::Expr &e) {
    Poly base = read(*e.args[0]), exponent = read(*e.args[1]);
    if (!base.valid() || !exponent.valid())
      return Poly::invalid();
    std::optional<Rational> number = exponent.constant();
    if (!number || number->denominator != 1 || number->numerator < 0)
      return fail(e.op, "the exponent in a size is a whole number");
    return checked(e, base.power(number->numerator));
  }

  Poly combine(const ast::Expr &e, const Poly &left, const Poly &right) {
    if (!right.valid())
      return right;
    if (e.kind == ExprKind::Add)
      return checked(e, left + right);
    if (e.kind == ExprKind::Subtract)
      return checked(e, left - right);
    if (e.kind == ExprKind::Multiply)
      return checked(e, left * right);
    if (e.kind == ExprKind::MatVec)
      return fail(e.op, "a size is a polynomial in dimension names");
    std::optional<Rational> divisor = right.constant();
    if (!divisor || divisor->numerator == 0)
      return fail(e.op, "a size is divided by a number only, and not by 0");
    return checked(e, left.dividedBy(*divisor));
  }

  Poly checked(const ast::Expr &e, Poly value) {
    return value.valid() ? value : fail(e.op, "the size is too large or has too many terms");
  }

  const DimLookup &lookup;
  Diagnostics *diagnostics;
};

} // namespace

const ast::Identifier &idOf(const ast::Decl &decl) {
  return std::visit([](const auto &d) -> const ast::Identifier & { return d.id; }, decl);
}

std::string_view kindOf(const ast::Decl &decl) {
  constexpr std::string_view names[] = {"a dim", "a sampler", "a fn", "a map", "an attention", "a loss"};
  static_assert(std::variant_size_v<ast::Decl> == std::size(names));
  return names[decl.index()];
}

Symbols::Symbols(const ast::File &file) {
  for (const ast::Decl &decl : file.decls)
    decls.emplace(idOf(decl).name, &decl);
}

const ast::Decl *Symbols::find(const std::string &name) const {
  auto found = decls.find(name);
  return found == decls.end() ? nullptr : found->second;
}

const ast::FnDecl *Symbols::findFn(const std::string &name) const {
  const ast::Decl *own = find(name);
  return own ? std::get_if<ast::FnDecl>(own) : prelude().find<ast::FnDecl>(name);
}

std::vector<ast::ExprRef> sizesOf(const ast::Arg &arg) {
  if (arg.shape)
    return arg.shape->sizes;
  ast::Expr size{
      .kind = ExprKind::Name, .range = arg.id.range, .op = arg.id.range, .name = arg.id.name == "V" ? "e" : "d"};
  return {std::make_shared<const ast::Expr>(std::move(size))};
}

const std::string *loneName(const ast::Expr &size) { return size.kind == ExprKind::Name ? &size.name : nullptr; }

Poly sizeOf(const ast::Expr &size, const DimLookup &lookup, Diagnostics *diagnostics) {
  return SizeReader(lookup, diagnostics).read(size);
}

bool sameExpr(const ast::Expr &a, const ast::Expr &b, int levels) {
  if (&a == &b)
    return true;
  if (levels == 0 || a.kind != b.kind || a.name != b.name || a.number != b.number || a.args.size() != b.args.size() ||
      !a.named.empty() || !b.named.empty() || !a.options.empty() || !b.options.empty())
    return false;
  for (size_t i = 0; i < a.args.size(); ++i)
    if (!sameExpr(*a.args[i], *b.args[i], levels - 1))
      return false;
  return true;
}

bool isBinary(const ast::Expr &e) { return e.kind >= ExprKind::Add && e.kind <= ExprKind::MatVec; }

} // namespace yaglom
