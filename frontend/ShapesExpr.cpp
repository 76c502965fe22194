// Shapes of names, operators, norms and stacks (T3, T4, T5, T7, T8, T11, T12).
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace yaglom {
namespace {

using ast::ExprKind;

Value scalar(Side side, double low) {
  Value value;
  value.valid = true;
  value.side = side;
  value.low = low;
  return value;
}

/// "cannot add [n] and [m]"
std::string cannot(const ast::Expr &e, const Value &a, const Value &b) {
  std::string left = text(a.shape), right = text(b.shape);
  switch (e.kind) {
  case ExprKind::Add:
    return fmt::format("cannot add {} and {}", left, right);
  case ExprKind::Subtract:
    return fmt::format("cannot subtract {} from {}", right, left);
  case ExprKind::Multiply:
    return fmt::format("cannot multiply {} by {}", left, right);
  case ExprKind::Divide:
    return fmt::format("cannot divide {} by {}", left, right);
  case ExprKind::Power:
    return fmt::format("cannot raise {} to the power {}", left, right);
  default:
    return fmt::format("cannot take the {} of {} and {}", e.name, left, right);
  }
}

std::optional<double> foldNumbers(const ast::Expr &e, double a, double b) {
  switch (e.kind) {
  case ExprKind::Add:
    return a + b;
  case ExprKind::Subtract:
    return a - b;
  case ExprKind::Multiply:
    return a * b;
  case ExprKind::Divide:
    return a / b;
  case ExprKind::Power:
    return std::pow(a, b);
  default:
    return std::nullopt; // min and max: with the other elementary functions
  }
}

/// A lower bound of the result (T12).
double lowerBound(const ast::Expr &e, const Value &a, const Value &b) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  bool positive = a.low >= 0 && b.low >= 0;
  switch (e.kind) {
  case ExprKind::Add:
    return a.low + b.low; // elu(x) >= -1, so that elu(x) + 1 is positive
  case ExprKind::Subtract:
    return b.number ? a.low - *b.number : none;
  case ExprKind::Multiply:
    return positive || sameExpr(*e.args[0], *e.args[1]) ? 0 : none;
  case ExprKind::Divide:
  case ExprKind::MatVec:
    return positive ? 0 : none;
  case ExprKind::Power: {
    bool even = b.number && std::fmod(*b.number, 2) == 0;
    return a.low >= 0 || even ? 0 : none;
  }
  default:
    return e.name == "min" ? std::min(a.low, b.low) : std::max(a.low, b.low);
  }
}

} // namespace

std::string describe(const Value &value) {
  std::string_view side = value.side == Side::None ? "" : value.side == Side::Query ? "query-side " : "key-side ";
  return std::string(side) + (value.shape.empty() ? "scalar" : text(value.shape));
}

std::string describeShape(const Value &value) { return value.shape.empty() ? "a scalar" : text(value.shape); }

std::string difference(const PolyShape &a, const PolyShape &b) {
  if (a.size() != b.size())
    return "";
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      return fmt::format("{} is not {}", a[i].text(), b[i].text());
  return "";
}

Value ShapeChecker::eval(const ast::Expr &e, Frame &frame) {
  if (!isBinary(e))
    return leaf(e, frame);
  std::vector<const ast::Expr *> chain;
  const ast::Expr *left = &e;
  for (; isBinary(*left); left = left->args[0].get())
    chain.push_back(left);
  Value value = leaf(*left, frame);
  for (; !chain.empty(); chain.pop_back())
    value = binary(*chain.back(), value, eval(*chain.back()->args[1], frame), frame);
  return value;
}

Value ShapeChecker::leaf(const ast::Expr &e, Frame &frame) {
  switch (e.kind) {
  case ExprKind::Number: {
    Value value = scalar(Side::None, e.number);
    value.constant = true;
    value.number = e.number;
    return value;
  }
  case ExprKind::Name:
    return name(e, frame);
  case ExprKind::Negate: {
    Value value = eval(*e.args[0], frame);
    if (value.number)
      value.number = -*value.number;
    value.low = value.number.value_or(-std::numeric_limits<double>::infinity());
    return value;
  }
  case ExprKind::Power: {
    Value base = eval(*e.args[0], frame);
    Value exponent = eval(*e.args[1], frame);
    warnPower(e, exponent, frame);
    return binary(e, base, exponent, frame);
  }
  case ExprKind::Norm: {
    Value value = rowToScalar(e, "|x|", e.op, eval(*e.args[0], frame));
    value.low = 0;
    return value;
  }
  case ExprKind::Stack:
    return stack(e, frame);
  default:
    return call(e, frame);
  }
}

Value ShapeChecker::dimension(const Poly &poly) {
  Value value = scalar(Side::None, 1);
  value.constant = true;
  if (std::optional<Rational> number = bound ? poly.evaluate(*bound) : poly.constant())
    value.number = static_cast<double>(number->numerator) / static_cast<double>(number->denominator);
  return value;
}

Value ShapeChecker::name(const ast::Expr &e, Frame &frame) {
  if (auto local = frame.locals.find(e.name); local != frame.locals.end())
    return local->second.value;
  if (std::optional<Poly> dim = lookup(e.name, frame.dims))
    return dimension(*dim);
  if (auto param = formulaParams.find(e.name); param != formulaParams.end())
    return param->second.value;
  return languageName(e, frame);
}

Value ShapeChecker::languageName(const ast::Expr &e, Frame &frame) {
  if (e.name == "pi") {
    Value value = scalar(Side::None, std::numbers::pi);
    value.constant = true;
    value.number = std::numbers::pi;
    return value;
  }
  if (e.name == "pos" || e.name == "len") {
    bool position = e.name == "pos";
    if (!frame.tokens)
      error(e.range, fmt::format("'{}' belongs to a token and cannot stand here", e.name));
    else if (position && !frame.hasRow)
      error(e.range, "'pos' stands only in a map, or a fn called from one");
    else if (position && frame.row == Side::None)
      error(e.range, fmt::format("'pos' needs a row: '{}' is applied to a value without a side", frame.name));
    else
      return scalar(position ? frame.row : Side::None, 0);
    return {};
  }
  if (frame.initialOf && (e.name == "head" || e.name == "heads"))
    return scalar(Side::None, 0);
  if (frame.initialOf && e.name == "index") {
    Value value = scalar(Side::None, 0);
    if (!frame.initialOf->empty())
      value.shape = {frame.initialOf->back()};
    return value;
  }
  // A fn may mean a dimension that some callers bind and others do not.
  error(e.range, fmt::format("unknown name '{}': '{}' binds no such dimension", e.name, frame.name));
  return {};
}

std::optional<Side> ShapeChecker::joinSides(Side a, Side b, const ast::Range &caret,
                                            std::vector<ast::Range> underlines) {
  if (a == Side::None || a == b)
    return b;
  if (b == Side::None)
    return a;
  error(caret, "mixes a query-side value with a key-side value; only linear(...) may combine them",
        std::move(underlines));
  return std::nullopt;
}

/// Where the operands that are names were declared.
static std::vector<Note> declarations(const ast::Expr &e, const Frame &frame) {
  std::vector<Note> notes;
  for (const ast::ExprRef &arg : e.args) {
    auto local = arg->kind == ExprKind::Name ? frame.locals.find(arg->name) : frame.locals.end();
    bool repeated = &arg != &e.args[0] && sameExpr(*arg, *e.args[0]);
    if (local != frame.locals.end() && !repeated)
      notes.push_back({local->second.declared, fmt::format("'{}' is declared here", arg->name)});
  }
  return notes;
}

Value ShapeChecker::binary(const ast::Expr &e, const Value &a, const Value &b, Frame &frame) {
  if (!a.valid || !b.valid)
    return {};
  std::optional<Side> side = joinSides(a.side, b.side, e.op, {e.args[0]->range, e.args[1]->range});
  if (!side)
    return {};
  Value value = e.kind == ExprKind::MatVec ? matVec(e, a, b, frame) : pointwise(e, a, b, frame);
  value.side = *side;
  value.low = lowerBound(e, a, b);
  value.constant = a.constant && b.constant;
  if (a.number && b.number)
    value.number = foldNumbers(e, *a.number, *b.number);
  // A constant has its own sign: 2 - 1 is positive although differences are not.
  if (value.number)
    value.low = *value.number;
  return value;
}

/// T3: equal shapes, a scalar, or [n, d] with [d] per row.
Value ShapeChecker::pointwise(const ast::Expr &e, const Value &a, const Value &b, Frame &frame) {
  Value value;
  value.valid = true;
  bool perRow = (a.shape.size() == 2 && b.shape.size() == 1 && a.shape[1] == b.shape[0]) ||
                (a.shape.size() == 1 && b.shape.size() == 2 && b.shape[1] == a.shape[0]);
  if (a.shape == b.shape || b.shape.empty())
    value.shape = a.shape;
  else if (a.shape.empty())
    value.shape = b.shape;
  else if (perRow)
    value.shape = a.shape.size() == 2 ? a.shape : b.shape;
  else {
    std::string why = difference(a.shape, b.shape);
    if (why.empty())
      why = fmt::format("{} is not {}", a.shape.back().text(), b.shape.back().text());
    error(e.op, fmt::format("{}: {}", cannot(e, a, b), why), {e.args[0]->range, e.args[1]->range},
          declarations(e, frame));
    value.valid = false;
  }
  return value;
}

/// T4: [n, d] @ [d] : [n]
Value ShapeChecker::matVec(const ast::Expr &e, const Value &a, const Value &b, Frame &frame) {
  std::vector<ast::Range> operands = {e.args[0]->range, e.args[1]->range};
  Value value;
  if (a.shape.size() == 2 && b.shape.size() == 1) {
    value.valid = a.shape[1] == b.shape[0];
    if (!value.valid)
      error(e.op,
            fmt::format("cannot contract {} with {}: {} is not {}", text(a.shape), text(b.shape), a.shape[1].text(),
                        b.shape[0].text()),
            operands, declarations(e, frame));
    value.shape = {a.shape[0]};
    return value;
  }
  std::string hint;
  if (a.shape.size() == 1 && b.shape.size() == 1)
    hint = "; write sum(x * y)";
  else if (a.shape.size() == 1 && b.shape.size() == 2)
    hint = "; the matrix stands on the left";
  else if (a.shape.empty() || b.shape.empty())
    hint = "; write '*' to multiply by a scalar";
  error(e.op, fmt::format("'@' takes a matrix and a vector, found {} and {}{}", text(a.shape), text(b.shape), hint),
        operands, declarations(e, frame));
  return value;
}

/// T5: [a; b] of vectors and scalars
Value ShapeChecker::stack(const ast::Expr &e, Frame &frame) {
  Value value = scalar(Side::None, std::numeric_limits<double>::infinity());
  value.constant = true;
  Poly sum;
  for (const ast::ExprRef &arg : e.args) {
    Value entry = eval(*arg, frame);
    if (!entry.valid || !value.valid) {
      value.valid = false;
      continue;
    }
    if (entry.shape.size() > 1)
      error(arg->range, fmt::format("a stack holds vectors and scalars, found {}", text(entry.shape)));
    std::optional<Side> side = joinSides(value.side, entry.side, arg->range, {});
    value.valid = entry.shape.size() <= 1 && side;
    value.side = side.value_or(Side::None);
    value.low = std::min(value.low, entry.low);
    sum = sum + (entry.shape.size() == 1 ? entry.shape[0] : Poly(1));
  }
  value.shape = {sum};
  value.constant = false;
  return value.valid ? sized(std::move(value), e.op) : Value{};
}

/// T7: a vector to a scalar. `caret` is where the message points.
Value ShapeChecker::rowToScalar(const ast::Expr &e, std::string_view what, const ast::Range &caret, const Value &x) {
  if (!x.valid)
    return {};
  if (x.shape.size() != 1) {
    error(caret, fmt::format("{} takes a vector, found {}", what, describeShape(x)), {e.args[0]->range});
    return {};
  }
  Value value = scalar(x.side, x.low >= 0 ? 0 : x.low);
  value.low = x.low >= 0 ? 0 : -std::numeric_limits<double>::infinity();
  return value;
}

/// e^x means exp(x) to most readers, but e is a width here.
void ShapeChecker::warnPower(const ast::Expr &e, const Value &exponent, const Frame &frame) {
  const ast::Expr &base = *e.args[0];
  // d^(1/4) is an ordinary scale; only an exponent that varies can be meant as an exponential.
  bool suspicious =
      base.kind == ExprKind::Name && (base.name == "e" || (base.name == "d" && exponent.valid && !exponent.constant));
  if (!suspicious || frame.locals.contains(base.name))
    return;
  const std::string &owner = base.name == "e" ? frame.widthE : frame.widthD;
  warning(base.range,
          fmt::format("'{}' is the width of {} here; write exp(x)", base.name, owner.empty() ? "V" : owner));
}

/// Checks every size of a new shape, which may be too large, or no integer once it is bound.
Value ShapeChecker::sized(Value value, const ast::Range &at) {
  for (const Poly &size : value.shape) {
    if (!size.valid())
      error(at, "the size is too large or has too many terms");
    if (!size.valid() || (bound && !integer(size, at)))
      return {};
  }
  return value;
}

} // namespace yaglom
