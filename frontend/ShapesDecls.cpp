// Shapes of bindings, maps and attentions, and the constants of sampler options.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace yaglom {

bool ownsTensors(const ast::Body &body) {
  return std::any_of(body.bindings.begin(), body.bindings.end(),
                     [](const ast::Binding &b) { return b.kind != ast::BindingKind::Let; });
}

void ShapeChecker::checkMap(const ast::MapDecl &map) {
  Frame frame;
  frame.name = map.id.name;
  // Any side will do: nothing in a map can tell query from key.
  frame.tokens = frame.hasRow = true;
  frame.row = Side::Query;
  bindNames(map.args, frame);
  for (const ast::Arg &arg : map.args)
    frame.locals[arg.id.name] = {argument(arg, Side::Query, frame), arg.id.range};
  Value result = body(map.body, frame);
  if (dialect == Dialect::Internal && map.id.name == "sample")
    formulaParams = frame.locals;
  if (!map.result || !result.valid)
    return;
  PolyShape declared;
  for (const ast::ExprRef &e : map.result->sizes)
    declared.push_back(size(*e, frame.dims));
  if (declared == result.shape)
    return;
  std::string why = difference(result.shape, declared);
  error(map.result->range, fmt::format("'{}' returns {}, but its arrow says {}{}{}", map.id.name, text(result.shape),
                                       text(declared), why.empty() ? "" : ": ", why));
}

AttentionUse ShapeChecker::checkAttention(const ast::AttentionDecl &attention) {
  AttentionUse result;
  use = &result;
  Frame frame;
  frame.name = attention.id.name;
  frame.tokens = frame.attends = true;
  frame.dims = {{"d", Poly::name("d")}, {"e", Poly::name("e")}};
  bindNames(attention.queryArgs, frame);
  bindNames(attention.keyArgs, frame);
  for (const ast::Arg &arg : attention.queryArgs)
    frame.locals[arg.id.name] = {argument(arg, Side::Query, frame), arg.id.range};
  for (const ast::Arg &arg : attention.keyArgs)
    frame.locals[arg.id.name] = {argument(arg, Side::Key, frame), arg.id.range};
  frame.widthD = "Q and K";
  frame.widthE = "V";
  if (ownsTensors(attention.body))
    own(nullptr, attention.id, attention.body, frame);
  result.result = body(attention.body, frame);
  const Value &value = result.result;
  if (value.valid && (value.side != Side::Query || value.shape.size() != 1))
    error(attention.body.result->range,
          fmt::format("an attention returns a query-side vector, found a {}{}", describe(value),
                      value.side == Side::None ? " without a side" : ""));
  use = nullptr;
  return result;
}

/// Names that stand alone in the shape of an argument mean themselves; others may use what a later argument binds.
void ShapeChecker::bindNames(const std::vector<ast::Arg> &args, Frame &frame) {
  for (const ast::Arg &arg : args)
    for (const ast::ExprRef &e : sizesOf(arg)) {
      const std::string *lone = loneName(*e);
      if (!lone || symbols.find<ast::DimDecl>(*lone))
        continue;
      frame.dims.emplace(*lone, Poly::name(*lone));
      if (*lone == "e")
        frame.widthE = arg.id.name;
      if (*lone == "d")
        frame.widthD = arg.id.name;
    }
}

/// An argument as its declaration says.
Value ShapeChecker::argument(const ast::Arg &arg, Side side, Frame &frame) {
  Value value;
  value.valid = true;
  value.side = side;
  for (const ast::ExprRef &e : sizesOf(arg))
    value.shape.push_back(sizeOf(*e, [&](const std::string &name) { return lookup(name, frame.dims); }, nullptr));
  return sized(std::move(value), arg.shape ? arg.shape->range : arg.id.range);
}

Value ShapeChecker::body(const ast::Body &body, Frame &frame) {
  for (const ast::Binding &b : body.bindings)
    binding(b, frame);
  return eval(*body.result, frame);
}

void ShapeChecker::binding(const ast::Binding &b, Frame &frame) {
  if (b.kind == ast::BindingKind::Let && b.names.size() == 2)
    return split(b, frame);
  Value value;
  if (b.kind == ast::BindingKind::Let) {
    value = eval(*b.value, frame);
  } else {
    value.valid = true;
    for (const ast::ExprRef &e : b.shape->sizes) {
      value.shape.push_back(size(*e, frame.dims));
      value.valid &= value.shape.back().valid();
    }
    if (value.valid && b.value)
      initial(b, value.shape, frame);
    if (b.draw && !symbols.find<ast::SamplerDecl>(b.draw->sampler.name))
      if (const SamplerKind *kind = findSamplerKind(b.draw->sampler.name))
        options(*kind, *b.draw, frame.dims);
  }
  for (const ast::Identifier &id : b.names)
    frame.locals[id.name] = {value, id.range};
}

/// T6: let (a, b) = split(x)
void ShapeChecker::split(const ast::Binding &b, Frame &frame) {
  Value half = b.value->args.size() == 1 ? eval(*b.value->args[0], frame) : Value{};
  if (half.valid && half.shape.size() != 1) {
    error(b.value->args[0]->range, fmt::format("split takes a vector, found {}", describeShape(half)));
    half = {};
  }
  if (half.valid) {
    half.shape = {half.shape[0].dividedBy({2, 1})};
    std::optional<Rational> number = half.shape[0].constant();
    if (number && number->denominator != 1) {
      error(b.value->op, fmt::format("split halves a vector of even length, found {}", number->numerator));
      half = {};
    } else {
      half = sized(std::move(half), b.value->op);
    }
  }
  for (const ast::Identifier &id : b.names)
    frame.locals[id.name] = {half, id.range};
}

/// A param starts at a scalar for all entries, at a value of its own shape, or at one row for all rows.
void ShapeChecker::initial(const ast::Binding &b, const PolyShape &shape, Frame &frame) {
  if (b.value->kind == ast::ExprKind::Name && b.value->name == "eye")
    return;
  // The names of the body, but no token and no attention.
  bool tokens = std::exchange(frame.tokens, false), attends = std::exchange(frame.attends, false);
  frame.initialOf = shape;
  Value value = eval(*b.value, frame);
  frame.initialOf.reset();
  frame.tokens = tokens;
  frame.attends = attends;
  bool row = value.shape.size() == 1 && !shape.empty() && value.shape[0] == shape.back();
  if (!value.valid || value.shape.empty() || value.shape == shape || row)
    return;
  std::string why = difference(value.shape, shape);
  error(b.value->range,
        fmt::format("'{}' is {}, its initial value {}{}{}", b.names[0].name, text(shape), text(value.shape),
                    why.empty() ? "" : ": ", why),
        {}, {{b.names[0].range, fmt::format("'{}' is declared here", b.names[0].name)}});
}

Poly ShapeChecker::size(const ast::Expr &e, const std::map<std::string, Poly> &dims) {
  Poly value = sizeOf(e, [&](const std::string &name) { return lookup(name, dims); }, nullptr);
  if (!value.valid())
    error(e.range, "the size is too large or has too many terms");
  else if (bound && !integer(value, e.range))
    return Poly::invalid();
  return value;
}

std::optional<int64_t> ShapeChecker::integer(const Poly &value, const ast::Range &at) {
  std::optional<Rational> number = value.evaluate(*bound);
  if (number && number->denominator == 1 && number->numerator >= 1 && number->numerator <= INT32_MAX)
    return number->numerator;
  if (std::optional<std::string> missing = value.missing(*bound)) {
    error(at, fmt::format("dimension '{}' has no value", *missing));
    return std::nullopt;
  }
  std::string found = !number                    ? "something larger"
                      : number->denominator == 1 ? fmt::format("{}", number->numerator)
                                                 : fmt::format("{}/{}", number->numerator, number->denominator);
  error(at, fmt::format("a size is a positive whole number below 2147483648, found {} = {}", value.text(), found));
  return std::nullopt;
}

std::optional<double> ShapeChecker::positiveConstant(const ast::Expr &e, std::string_view what, bool integer,
                                                     const std::map<std::string, Poly> &dims) {
  Frame frame;
  frame.name = what;
  frame.dims = dims;
  Value value = eval(e, frame);
  if (!value.valid)
    return std::nullopt;
  if (!value.shape.empty() || !value.constant) {
    error(e.range, fmt::format("'{}' is a positive constant, made of numbers, dimensions and pi", what));
    return std::nullopt;
  }
  if (!value.number)
    return std::nullopt;
  double number = *value.number;
  bool fits = number > 0 && number <= std::numeric_limits<double>::max();
  if (integer)
    fits = fits && number == std::floor(number) && number <= INT32_MAX;
  if (!fits) {
    error(e.range, fmt::format("'{}' is a positive {}, found {}", what, integer ? "whole number" : "number", number));
    return std::nullopt;
  }
  return number;
}

SamplerOptions ShapeChecker::options(const SamplerKind &kind, const ast::DrawSpec &spec,
                                     const std::map<std::string, Poly> &dims) {
  SamplerOptions result;
  for (const SamplerOption &known : kind.options) {
    auto given = std::find_if(spec.options.begin(), spec.options.end(), [&](auto &o) { return o.name == known.name; });
    std::optional<double> value = known.fallback;
    if (given != spec.options.end())
      value = positiveConstant(*given->value, known.name, known.integer, dims);
    if (value && known.integer && *value > known.most) {
      error(given->value->range, fmt::format("'{}' is at most {}, found {}", known.name, known.most, *value));
      value.reset();
    }
    if (value)
      result.emplace(known.name, *value);
  }
  return result;
}

/// The caret and the notes of a message: the prelude is not the user's, so that the caret is at the call into it.
std::pair<ast::Range, std::vector<Note>> ShapeChecker::place(const ast::Range &caret) const {
  auto prelude = std::find_if(calls.begin(), calls.end(), [](const CallSite &c) { return c.prelude; });
  std::pair<ast::Range, std::vector<Note>> result{prelude == calls.end() ? caret : prelude->name, {}};
  constexpr size_t most = 4;
  for (auto site = std::make_reverse_iterator(prelude); site != calls.rend() && result.second.size() < most; ++site)
    result.second.push_back({site->name, fmt::format("'{}' is called here", site->callee)});
  return result;
}

void ShapeChecker::error(const ast::Range &caret, std::string message, std::vector<ast::Range> underlines,
                         std::vector<Note> notes) {
  auto [at, callNotes] = place(caret);
  notes.insert(notes.end(), callNotes.begin(), callNotes.end());
  diagnostics.error(at, std::move(message), std::move(underlines), std::move(notes));
}

void ShapeChecker::warning(const ast::Range &caret, std::string message) {
  auto [at, notes] = place(caret);
  diagnostics.warning(at, std::move(message), {}, std::move(notes));
}

} // namespace yaglom
