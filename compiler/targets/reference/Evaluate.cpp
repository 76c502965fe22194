// The interpreter: one function a kind of expression, as language.md defines it.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Evaluate.h"

#include "compiler/targets/reference/Linear.h"
#include "compiler/targets/reference/SamplerFunctions.h"
#include "frontend/Builtins.h"
#include "frontend/Prelude.h"

#include <numbers>

namespace yaglom::reference {
namespace {

using ast::ExprKind;

/// Rows of a batch that a map is applied to at once: bounds the memory, and constants are computed once a block.
constexpr int64_t kRowsAtOnce = 64;

template <typename S>
Value<S> rowsOf(const Value<S> &value, int64_t begin, int64_t count) {
  if (value.isConstant())
    return value;
  Value<S> part(value.shape, count);
  std::copy_n(value.row(begin), count * value.width(), part.data.data());
  return part;
}

template <typename S>
Value<S> numberedFrom(int64_t first, int64_t count) {
  Value<S> result(std::vector<int64_t>{}, count);
  for (int64_t i = 0; i < count; ++i)
    result.data[static_cast<std::size_t>(i)] = S(static_cast<double>(first + i));
  return result;
}

/// [n, d] @ [d].
template <typename S>
Value<S> matVec(const Value<S> &matrix, const Value<S> &vector) {
  const int64_t n = matrix.shape.at(0), d = matrix.shape.at(1);
  Value<S> result(std::vector<int64_t>{n}, commonRows(matrix, vector));
  for (int64_t r = 0; r < result.rowCount(); ++r) {
    for (int64_t i = 0; i < n; ++i)
      result.row(r)[i] = dot(matrix.row(r) + i * d, vector.row(r), d);
  }
  return result;
}

template <typename S>
Value<S> stack(const std::vector<Value<S>> &entries) {
  int64_t width = 0, rows = Value<S>::kConstant;
  for (const Value<S> &entry : entries) {
    width += entry.width();
    rows = entry.isConstant() ? rows : entry.rows;
  }
  Value<S> result(std::vector<int64_t>{width}, rows);
  for (int64_t r = 0; r < result.rowCount(); ++r) {
    S *out = result.row(r);
    for (const Value<S> &entry : entries)
      out = std::copy_n(entry.row(r), entry.width(), out);
  }
  return result;
}

/// x_i y_j at place i * m + j.
template <typename S>
Value<S> outer(const Value<S> &x, const Value<S> &y) {
  Value<S> result(std::vector<int64_t>{x.width() * y.width()}, commonRows(x, y));
  for (int64_t r = 0; r < result.rowCount(); ++r) {
    S *out = result.row(r);
    for (int64_t i = 0; i < x.width(); ++i)
      for (int64_t j = 0; j < y.width(); ++j)
        *out++ = x.row(r)[i] * y.row(r)[j];
  }
  return result;
}

template <typename S>
Value<S> slice(const Value<S> &x, int64_t begin, int64_t count) {
  Value<S> result(std::vector<int64_t>{count}, x.rows);
  for (int64_t r = 0; r < x.rowCount(); ++r)
    std::copy_n(x.row(r) + begin, count, result.row(r));
  return result;
}

template <typename S>
S sumOf(const S *x, int64_t width) {
  S sum{};
  for (int64_t i = 0; i < width; ++i)
    sum += x[i];
  return sum;
}

/// The largest number of a row; the first of equals, and so all of the gradient goes to it. NaN if there is one.
template <typename S>
S maxOf(const S *x, int64_t width) {
  S largest = x[0];
  for (int64_t i = 1; i < width && !valueOf(largest).isNan(); ++i)
    if (valueOf(x[i]) > valueOf(largest) || valueOf(x[i]).isNan())
      largest = x[i];
  return largest;
}

template <typename S>
Value<S> norm(const Value<S> &x) {
  return reduceRows(x, [](const S *row, int64_t width) { return rootOfSquares(dot(row, row, width)); });
}

/// Binds the names that stand alone in an argument's shape and are no `dim` (T2); without a shape it is [d].
void bindDims(const ast::Arg &arg, const std::vector<int64_t> &shape, const DimValues &fileDims, DimValues &dims) {
  if (!arg.shape) {
    dims["d"] = shape.at(0);
    return;
  }
  for (std::size_t axis = 0; axis < arg.shape->sizes.size(); ++axis)
    if (const ast::Expr &size = *arg.shape->sizes[axis]; size.kind == ExprKind::Name && !fileDims.count(size.name))
      dims[size.name] = shape.at(axis);
}

bool isOne(const ast::Expr &expr) { return expr.kind == ExprKind::Number && expr.number == 1; }

} // namespace

template <typename S>
Value<S> Evaluator<S>::evaluate(const ast::Expr &expr, const Scope<S> &scope) const {
  const auto arg = [&](std::size_t i) { return evaluate(*expr.args[i], scope); };
  switch (expr.kind) {
  case ExprKind::Number:
    return S(expr.number);
  case ExprKind::Name:
    return name(expr, scope);
  case ExprKind::Negate:
    return pointwise(arg(0), [](const S &x) { return -x; });
  case ExprKind::Add:
    return add(expr, scope);
  case ExprKind::Subtract:
    return elementwise(arg(0), arg(1), [](const S &x, const S &y) { return x - y; });
  case ExprKind::Multiply:
    return elementwise(arg(0), arg(1), [](const S &x, const S &y) { return x * y; });
  case ExprKind::Divide:
    return elementwise(arg(0), arg(1), [](const S &x, const S &y) { return x / y; });
  case ExprKind::MatVec:
    return matVec(arg(0), arg(1));
  case ExprKind::Power:
    return elementwise(arg(0), arg(1), [](const S &x, const S &y) { return power(x, y); });
  case ExprKind::Norm:
    return norm(arg(0));
  case ExprKind::Stack: {
    std::vector<Value<S>> entries;
    entries.reserve(expr.args.size());
    for (std::size_t i = 0; i < expr.args.size(); ++i)
      entries.push_back(arg(i));
    return stack(entries);
  }
  case ExprKind::Call:
    return call(expr, scope);
  }
  assert(false && "every kind is handled");
  return {};
}

template <typename S>
Value<S> Evaluator<S>::name(const ast::Expr &expr, const Scope<S> &scope) const {
  if (const auto value = scope.values.find(expr.name); value != scope.values.end())
    return value->second;
  if (const auto dim = scope.dims.find(expr.name); dim != scope.dims.end())
    return S(static_cast<double>(dim->second));
  if (expr.name == "pi")
    return S(std::numbers::pi);
  if (expr.name == "len")
    return S(static_cast<double>(env.length()));
  if (expr.name.starts_with("self."))
    return env.tensor(env.self + expr.name.substr(4));
  if (expr.name == "pos" && scope.position)
    return *scope.position;
  throw Error("internal error: the reference does not know the name '" + expr.name + "'");
}

template <typename S>
Value<S> Evaluator<S>::add(const ast::Expr &expr, const Scope<S> &scope) const {
  // As written, elu(x) + 1 loses every digit of exp(x) below -37; the formula does not.
  for (int side = 0; side < 2; ++side)
    if (isOne(*expr.args[1 - side]))
      if (const ast::Expr *x = eluArgument(*expr.args[side], scope))
        return pointwise(evaluate(*x, scope), *findUnary("elu + 1"));
  return elementwise(evaluate(*expr.args[0], scope), evaluate(*expr.args[1], scope),
                     [](const S &x, const S &y) { return x + y; });
}

/// The x of elu(x), also behind a `let`; null when the expression is something else.
template <typename S>
const ast::Expr *Evaluator<S>::eluArgument(const ast::Expr &expr, const Scope<S> &scope) const {
  if (expr.kind == ExprKind::Call && expr.name == "elu")
    return expr.args[0].get();
  if (expr.kind == ExprKind::Name)
    if (const auto let = scope.lets.find(expr.name); let != scope.lets.end())
      return eluArgument(*let->second, scope);
  return nullptr;
}

template <typename S>
Value<S> Evaluator<S>::call(const ast::Expr &expr, const Scope<S> &scope) const {
  std::vector<Value<S>> args;
  args.reserve(expr.args.size());
  for (const ast::ExprRef &arg : expr.args)
    args.push_back(evaluate(*arg, scope));
  if (expr.name == "linear" || expr.name == "softmax_attention")
    return attention(expr, std::move(args), scope);
  if (const auto *map = env.file->template find<ast::MapDecl>(expr.name))
    return applyMap(*map, args);
  if (const ast::FnDecl *fn = findFn(*env.file, expr.name))
    return applyFn(*fn, std::move(args), scope);
  if (args.size() == 2 && expr.name == "max")
    return elementwise(args[0], args[1], [](const S &x, const S &y) { return maximum(x, y); });
  if (args.size() == 2 && expr.name == "min")
    return elementwise(args[0], args[1], [](const S &x, const S &y) { return minimum(x, y); });
  if (const Unary *function = findUnary(expr.name))
    return pointwise(args.at(0), *function);
  return special(expr, args, scope);
}

template <typename S>
Value<S> Evaluator<S>::special(const ast::Expr &expr, const std::vector<Value<S>> &args, const Scope<S> &scope) const {
  const auto integer = [&](std::size_t i) { return static_cast<int64_t>(valueOf(args.at(i).data[0]).toDouble()); };
  const Special *known = findSpecial(expr.name);
  if (!known)
    throw Error("internal error: the reference does not know the function '" + expr.name + "'");
  switch (known->function) {
  case Function::Sum:
    return reduceRows(args[0], sumOf<S>);
  case Function::Mean:
    return reduceRows(args[0], [](const S *x, int64_t n) { return sumOf(x, n) / S(static_cast<double>(n)); });
  case Function::Max:
    return reduceRows(args[0], maxOf<S>);
  case Function::Outer:
    return outer(args[0], args[1]);
  case Function::Slice:
    return slice(args[0], integer(1), integer(2));
  case Function::Component:
    return component(args[0], args[1], scope.position.value().rows);
  case Function::Orthogonalize:
    return orthogonalize(args[0]);
  default:
    throw Error("internal error: '" + expr.name + "' stands where no expression can");
  }
}

template <typename S>
Value<S> Evaluator<S>::attention(const ast::Expr &expr, std::vector<Value<S>> args, const Scope<S> &scope) const {
  LinearOptions<S> options;
  for (const ast::Option &option : expr.options) {
    std::optional<Value<S>> value;
    if (option.value)
      value = evaluate(*option.value, scope);
    if (option.name == "causal")
      options.causal = true;
    else if (option.name == "decay")
      options.decay = value;
    else if (option.name == "log_decay")
      options.decay = pointwise(*value, *findUnary("exp"));
    else if (option.name == "mask")
      options.mask = value;
    else if (option.name == "scale")
      options.scale = value;
    else if (option.name == "normalize") {
      const std::string form = option.args.empty() ? "" : option.args[0].name;
      options.normalize = form == "eps"      ? Normalize::Eps
                          : form == "clamp"  ? Normalize::Clamp
                          : form == "signed" ? Normalize::Signed
                                             : Normalize::Bare;
      if (!option.args.empty())
        options.threshold = S(valueOf(evaluate(*option.args[0].value, scope).data[0]));
    } else
      throw Error("internal error: the reference does not know the option '" + option.name + "'");
  }
  const auto combine = expr.name == "linear" ? linear<S> : softmaxAttention<S>;
  return combine(args[0], args[1], args[2], options, env.queryRows, env.keyRows);
}

template <typename S>
Value<S> Evaluator<S>::applyFn(const ast::FnDecl &fn, std::vector<Value<S>> args, const Scope<S> &caller) const {
  Scope<S> scope;
  scope.dims = caller.dims;
  scope.position = caller.position;
  for (std::size_t i = 0; i < args.size(); ++i)
    scope.values[fn.params[i].name] = std::move(args[i]);
  return evaluate(*fn.body, scope);
}

template <typename S>
Value<S> Evaluator<S>::applyMap(const ast::MapDecl &map, const std::vector<Value<S>> &args) const {
  int64_t rows = Value<S>::kConstant;
  for (const Value<S> &arg : args)
    rows = arg.isConstant() ? rows : arg.rows;
  if (rows == Value<S>::kConstant)
    return applyToAllRows(map, args, 1);
  Value<S> result;
  for (int64_t begin = 0; begin == 0 || begin < rows; begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - begin);
    std::vector<Value<S>> part;
    part.reserve(args.size());
    for (const Value<S> &arg : args)
      part.push_back(rowsOf(arg, begin, count));
    Value<S> block = applyToAllRows(map, part, 1 + begin);
    if (begin == 0)
      result = Value<S>(block.shape, rows);
    for (int64_t r = 0; r < count; ++r) // the result of a map that ignores its input is constant
      std::copy_n(block.row(r), block.width(), result.row(begin + r));
  }
  return result;
}

template <typename S>
Value<S> Evaluator<S>::applyToAllRows(const ast::MapDecl &map, const std::vector<Value<S>> &args,
                                      int64_t firstPosition) const {
  Scope<S> scope;
  scope.dims = env.dims;
  for (std::size_t i = 0; i < args.size(); ++i) {
    bindDims(map.args[i], args[i].shape, env.dims, scope.dims);
    scope.values[map.args[i].id.name] = args[i];
    if (!args[i].isConstant() && !scope.position)
      scope.position = numberedFrom<S>(firstPosition, args[i].rows);
  }
  return evaluateBody(map.body, map.id.name, std::move(scope));
}

template <typename S>
Value<S> Evaluator<S>::evaluateBody(const ast::Body &body, const std::string &owner, Scope<S> scope) const {
  for (const ast::Binding &binding : body.bindings)
    bind(binding, owner, scope);
  return evaluate(*body.result, scope);
}

template <typename S>
void Evaluator<S>::bind(const ast::Binding &binding, const std::string &owner, Scope<S> &scope) const {
  if (binding.kind != ast::BindingKind::Let) {
    for (const ast::Identifier &id : binding.names)
      if (!id.name.starts_with("self.")) // a sampler's own parameters are looked up where they stand
        scope.values[id.name] = env.tensor(owner + "." + id.name);
    return;
  }
  if (binding.names.size() == 2) { // let (a, b) = split(x)
    const Value<S> whole = evaluate(*binding.value->args.at(0), scope);
    const int64_t half = whole.width() / 2;
    scope.values[binding.names[0].name] = slice(whole, 0, half);
    scope.values[binding.names[1].name] = slice(whole, half, half);
    return;
  }
  scope.values[binding.names[0].name] = evaluate(*binding.value, scope);
  scope.lets[binding.names[0].name] = binding.value;
}

template class Evaluator<Wide>;
template class Evaluator<WideDual>;

} // namespace yaglom::reference
