// Shapes of calls: functions are followed into their bodies, maps are applied at the widths of their arguments.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Builtins.h"
#include "frontend/Shapes.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom {

Value ShapeChecker::call(const ast::Expr &e, Frame &frame) {
  std::vector<Value> args;
  bool valid = true;
  for (const ast::ExprRef &arg : e.args) {
    args.push_back(eval(*arg, frame));
    valid &= args.back().valid;
  }
  const Special *builtin = findSpecial(e.name);
  bool attends = builtin && (builtin->function == Function::Linear || builtin->function == Function::SoftmaxAttention);
  if (attends)
    return attend(e, args, frame);
  if (!valid)
    return {};
  if (findElementary(e.name) && !(e.name == "max" && args.size() == 1))
    return elementary(e, args, frame);
  if (builtin && (!builtin->internal || dialect == Dialect::Internal))
    return special(e, args, frame);
  if (symbols.isBad(e.name))
    return {};
  if (const auto *decl = symbols.find<ast::MapDecl>(e.name))
    return map(e, *decl, args);
  if (const ast::FnDecl *decl = symbols.findFn(e.name))
    return fn(e, *decl, args, frame);
  return {};
}

Value ShapeChecker::elementary(const ast::Expr &e, const std::vector<Value> &args, Frame &frame) {
  const Elementary &f = *findElementary(e.name);
  if (static_cast<int>(args.size()) < f.minArgs || static_cast<int>(args.size()) > f.maxArgs)
    return {};
  Value value = args.size() == 2 ? binary(e, args[0], args[1], frame) : args[0];
  if (!value.valid)
    return value;
  const Value &x = args[0];
  if (args.size() == 1)
    value.low = f.positive ? 0 : -std::numeric_limits<double>::infinity();
  if (e.name == "elu")
    value.low = std::max(x.low, -1.0); // elu(x) = x where x is positive
  bool known = x.number && (args.size() == 1 || args[1].number);
  value.number = known ? std::optional(f.value(*x.number, args.back().number.value_or(0))) : std::nullopt;
  if (value.number)
    value.low = *value.number;
  return value;
}

Value ShapeChecker::special(const ast::Expr &e, const std::vector<Value> &args, Frame &frame) {
  const Special &f = *findSpecial(e.name);
  if (static_cast<int>(args.size()) != f.args)
    return {};
  (void)frame;
  switch (f.function) {
  case Function::Sum:
  case Function::Mean:
  case Function::Max:
    return rowToScalar(e, e.name, e.args[0]->range, args[0]);
  case Function::Outer:
    return outer(e, args[0], args[1]);
  case Function::Slice:
  case Function::Component:
  case Function::Orthogonalize:
    return internal(e, args);
  default:
    return {}; // split and kl in the wrong place: reported with the names
  }
}

Value ShapeChecker::outer(const ast::Expr &e, const Value &x, const Value &y) {
  for (size_t i : {0, 1})
    if (const Value &arg = i == 0 ? x : y; arg.shape.size() != 1) {
      error(e.args[i]->range, fmt::format("outer takes two vectors, found {}", describeShape(arg)));
      return {};
    }
  std::optional<Side> side = joinSides(x.side, y.side, e.op, {e.args[0]->range, e.args[1]->range});
  if (!side)
    return {};
  Value value;
  value.valid = true;
  value.side = *side;
  value.shape = {x.shape[0] * y.shape[0]};
  bool positive = (x.low >= 0 && y.low >= 0);
  value.low = positive ? 0 : value.low;
  return sized(std::move(value), e.op);
}

/// The functions of sampler formulas (Samplers.h).
Value ShapeChecker::internal(const ast::Expr &e, const std::vector<Value> &args) {
  Value value = args[0];
  value.low = -std::numeric_limits<double>::infinity();
  value.constant = false;
  value.number.reset();
  if (e.name == "slice") {
    std::optional<Rational> count = args[2].number ? Rational::from(*args[2].number) : std::nullopt;
    if (value.shape.size() != 1 || !args[1].number || !count)
      error(e.op, "slice takes a vector and two numbers");
    value.shape = {count ? Poly(*count) : Poly::invalid()};
  } else if (e.name == "component") {
    if (value.shape.empty() || args[1].shape.size() != 1 || value.shape[0] != args[1].shape[0])
      error(e.op, "component takes [Q, D] or [Q], and [Q]");
    value.shape.erase(value.shape.begin(), value.shape.begin() + !value.shape.empty());
    value.side = Side::None;
  } else if (value.shape.size() != 1) {
    error(e.op, "orthogonalize takes a vector");
  }
  return value;
}

/// A fn is its formula; it sees the dimensions of its caller.
Value ShapeChecker::fn(const ast::Expr &e, const ast::FnDecl &decl, const std::vector<Value> &args, Frame &frame) {
  bool prelude = !symbols.find<ast::FnDecl>(e.name);
  if (args.size() != decl.params.size())
    return {};
  if (prelude && takesVector(e.name) && args[0].shape.size() != 1) {
    error(e.args[0]->range, fmt::format("{} takes a vector, found {}", e.name, describeShape(args[0])));
    return {};
  }
  Frame inner;
  inner.name = frame.name;
  inner.dims = frame.dims;
  inner.tokens = frame.tokens;
  inner.attends = frame.attends;
  inner.hasRow = frame.hasRow;
  inner.row = frame.row;
  inner.widthD = frame.widthD;
  inner.widthE = frame.widthE;
  for (size_t i = 0; i < args.size(); ++i)
    inner.locals[decl.params[i].name] = {args[i], decl.params[i].range};
  calls.push_back({e.op, e.name, prelude});
  Value value = eval(*decl.body, inner);
  calls.pop_back();
  return value;
}

Value ShapeChecker::map(const ast::Expr &e, const ast::MapDecl &decl, const std::vector<Value> &args) {
  if (args.size() != decl.args.size())
    return {};
  Frame inner;
  inner.name = decl.id.name;
  inner.tokens = inner.hasRow = true;
  for (size_t i = 0; i < args.size(); ++i) {
    std::optional<Side> side = joinSides(inner.row, args[i].side, e.args[i]->range, {});
    if (!side)
      return {};
    inner.row = *side;
  }
  // Names first: a size such as [2*n] may use what a later argument binds.
  for (bool lone : {true, false})
    for (size_t i = 0; i < args.size(); ++i)
      if (!bindArg(e, decl, i, args[i], inner, lone))
        return {};
  for (size_t i = 0; i < args.size(); ++i)
    inner.locals[decl.args[i].id.name] = {args[i], decl.args[i].id.range};
  if (ownsTensors(decl.body))
    own(&e, decl.id, decl.body, inner);
  calls.push_back({e.op, e.name, false});
  Value value = body(decl.body, inner);
  calls.pop_back();
  return value;
}

/// Fits one argument to its declared shape: binds the sizes that are names (`lone`), compares the others.
bool ShapeChecker::bindArg(const ast::Expr &call, const ast::MapDecl &decl, size_t index, const Value &value,
                           Frame &inner, bool lone) {
  const ast::Arg &arg = decl.args[index];
  std::vector<ast::ExprRef> sizes = sizesOf(arg);
  std::vector<Note> declared = {{arg.id.range, fmt::format("'{}' is declared here", arg.id.name)}};
  PolyShape expected;
  bool fits = sizes.size() == value.shape.size();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const std::string *name = loneName(*sizes[axis]);
    bool binds = name && !symbols.find<ast::DimDecl>(*name);
    if (binds && fits)
      inner.dims.emplace(*name, value.shape[axis]);
    if (binds && name && *name == "e")
      inner.widthE = arg.id.name;
    if (binds && name && *name == "d")
      inner.widthD = arg.id.name;
  }
  if (lone)
    return true;
  for (size_t axis = 0; axis < sizes.size() && fits; ++axis) {
    expected.push_back(
        sizeOf(*sizes[axis], [&](const std::string &name) { return lookup(name, inner.dims); }, nullptr));
    fits &= expected.back() == value.shape[axis];
  }
  if (fits)
    return true;
  PolyShape written;
  for (const ast::ExprRef &size : sizes)
    written.push_back(sizeOf(*size, [](const std::string &name) { return std::optional(Poly::name(name)); }, nullptr));
  std::string why = expected.size() == value.shape.size() ? difference(value.shape, expected) : "";
  error(call.args[index]->range,
        fmt::format("'{}' of '{}' is {}, found {}{}{}", arg.id.name, decl.id.name,
                    written.empty() ? "a scalar" : text(written), value.shape.empty() ? "a scalar" : text(value.shape),
                    why.empty() ? "" : ": ", why),
        {}, std::move(declared));
  return false;
}

std::optional<Poly> ShapeChecker::lookup(const std::string &name, const std::map<std::string, Poly> &dims) const {
  if (auto found = dims.find(name); found != dims.end())
    return found->second;
  const auto *dim = symbols.find<ast::DimDecl>(name);
  if (!dim)
    return std::nullopt;
  // A sampler's formula is written for one size: its dims are abbreviations of numbers.
  return dialect == Dialect::Internal ? Poly(dim->value) : Poly::name(name);
}

/// T14: one set of tensors per attention, so one width.
void ShapeChecker::own(const ast::Expr *call, const ast::Identifier &id, const ast::Body &body, const Frame &frame) {
  if (!use)
    return;
  for (const OwnerUse &owner : use->owners) {
    if (owner.id != &id)
      continue;
    for (const auto &[name, size] : frame.dims)
      if (const Poly &first = owner.dims.at(name); first != size)
        error(call->op,
              fmt::format("'{}' owns params or draws and is applied at two widths: {} is {} here and {} before",
                          id.name, name, size.text(), first.text()),
              {}, {{owner.firstCall, fmt::format("'{}' is first applied here", id.name)}});
    return;
  }
  use->owners.push_back({&id, &body, frame.dims, call ? call->op : id.range});
}

} // namespace yaglom
