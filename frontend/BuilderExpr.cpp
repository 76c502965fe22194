// Expressions of the C++ builder: operators, functions, calls with options.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/BuilderImpl.h"
#include "frontend/Check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace yaglom {

using ast::ExprKind;
using builder::Node;
using Where = std::source_location;

namespace builder {

Expr make(Node node) {
  auto add = [&](const NodeRef &arg) {
    node.depth = std::max(node.depth, arg->depth + 1);
    node.size += arg->size;
  };
  for (const NodeRef &arg : node.args)
    add(arg);
  for (const Option &option : node.options) {
    if (option.value)
      add(option.value);
    for (const Named &arg : option.args)
      add(arg.value);
  }
  if (node.depth > kMaxDepth)
    node.mistake = fmt::format("the expression is too deep: more than {} operators below each other", kMaxDepth);
  // A value that is used again and again grows as a tree: 40 doublings would never end.
  else if (node.size > kMaxOperations)
    node.mistake = fmt::format("the expression has more than {} operations; name its parts with let", kMaxOperations);
  if (!node.mistake.empty()) {
    Node poison;
    poison.where = node.where;
    poison.mistake = node.mistake;
    node = std::move(poison);
  }
  return Expr(std::make_shared<const Node>(std::move(node)));
}

} // namespace builder

namespace {

Expr node(ExprKind kind, std::vector<Expr> args, Where where, std::string name = {}) {
  Node result;
  result.kind = kind;
  result.where = where;
  result.name = std::move(name);
  for (const Expr &arg : args)
    result.args.push_back(arg.node());
  return builder::make(std::move(result));
}

std::shared_ptr<const Node> numberNode(double number, Where where) {
  Node result;
  result.where = where;
  result.number = std::abs(number);
  if (!std::isfinite(number)) {
    result.number = 0;
    result.mistake = fmt::format("numbers are finite, found {}", number);
  }
  Expr magnitude = builder::make(std::move(result));
  return std::signbit(number) && number != 0 ? node(ExprKind::Negate, {magnitude}, where).node() : magnitude.node();
}

} // namespace

Expr::Expr(double number, Where where) : pointer(numberNode(number, where)) {}
Expr::Expr(const Dim &dim, Where where) : pointer(yaglom::node(ExprKind::Name, {}, where, dim.name()).node()) {}

Operand::Operand(const AttentionCall &call, Where where) : value(call), where(where) {}

Expr operator+(const Operand &a, const Operand &b) { return node(ExprKind::Add, {a.value, b.value}, a.where); }
Expr operator-(const Operand &a, const Operand &b) { return node(ExprKind::Subtract, {a.value, b.value}, a.where); }
Expr operator*(const Operand &a, const Operand &b) { return node(ExprKind::Multiply, {a.value, b.value}, a.where); }
Expr operator/(const Operand &a, const Operand &b) { return node(ExprKind::Divide, {a.value, b.value}, a.where); }
Expr operator-(const Operand &a) { return node(ExprKind::Negate, {a.value}, a.where); }

Expr call(const std::string &name, const std::vector<Expr> &args, Where where) {
  return node(ExprKind::Call, args, where, name);
}

Expr exp(const Expr &x, Where where) { return call("exp", {x}, where); }
Expr exp2(const Expr &x, Where where) { return call("exp2", {x}, where); }
Expr expm1(const Expr &x, Where where) { return call("expm1", {x}, where); }
Expr log(const Expr &x, Where where) { return call("log", {x}, where); }
Expr log1p(const Expr &x, Where where) { return call("log1p", {x}, where); }
Expr sin(const Expr &x, Where where) { return call("sin", {x}, where); }
Expr cos(const Expr &x, Where where) { return call("cos", {x}, where); }
Expr tan(const Expr &x, Where where) { return call("tan", {x}, where); }
Expr tanh(const Expr &x, Where where) { return call("tanh", {x}, where); }
Expr sqrt(const Expr &x, Where where) { return call("sqrt", {x}, where); }
Expr rsqrt(const Expr &x, Where where) { return call("rsqrt", {x}, where); }
Expr abs(const Expr &x, Where where) { return call("abs", {x}, where); }
Expr sign(const Expr &x, Where where) { return call("sign", {x}, where); }
Expr erf(const Expr &x, Where where) { return call("erf", {x}, where); }
Expr relu(const Expr &x, Where where) { return call("relu", {x}, where); }
Expr elu(const Expr &x, Where where) { return call("elu", {x}, where); }
Expr sigmoid(const Expr &x, Where where) { return call("sigmoid", {x}, where); }
Expr softplus(const Expr &x, Where where) { return call("softplus", {x}, where); }
Expr silu(const Expr &x, Where where) { return call("silu", {x}, where); }
Expr gelu(const Expr &x, Where where) { return call("gelu", {x}, where); }
Expr square(const Expr &x, Where where) { return call("square", {x}, where); }
Expr unit(const Expr &x, Where where) { return call("unit", {x}, where); }
Expr softmax(const Expr &x, Where where) { return call("softmax", {x}, where); }
Expr sum(const Expr &x, Where where) { return call("sum", {x}, where); }
Expr mean(const Expr &x, Where where) { return call("mean", {x}, where); }
Expr norm(const Expr &x, Where where) { return node(ExprKind::Norm, {x}, where); }

Expr min(const Expr &x, const Expr &y, Where where) { return call("min", {x, y}, where); }
Expr max(const Expr &x, const Expr &y, Where where) { return call("max", {x, y}, where); }
Expr max(const Expr &x, Where where) { return call("max", {x}, where); }
Expr pow(const Expr &x, const Expr &y, Where where) { return node(ExprKind::Power, {x, y}, where); }
Expr matmul(const Expr &matrix, const Expr &vector, Where where) {
  return node(ExprKind::MatVec, {matrix, vector}, where);
}
Expr outer(const Expr &x, const Expr &y, Where where) { return call("outer", {x, y}, where); }

Expr stack(const std::vector<Expr> &entries, Where where) {
  if (!entries.empty())
    return node(ExprKind::Stack, entries, where);
  Node empty;
  empty.where = where;
  empty.mistake = "a stack has at least one entry";
  return builder::make(std::move(empty));
}

Expr pi(Where where) { return node(ExprKind::Name, {}, where, "pi"); }
Expr pos(Where where) { return node(ExprKind::Name, {}, where, "pos"); }
Expr len(Where where) { return node(ExprKind::Name, {}, where, "len"); }
Expr head(Where where) { return node(ExprKind::Name, {}, where, "head"); }
Expr heads(Where where) { return node(ExprKind::Name, {}, where, "heads"); }
Expr index(Where where) { return node(ExprKind::Name, {}, where, "index"); }
Expr eye(Where where) { return node(ExprKind::Name, {}, where, "eye"); }

AttentionCall::AttentionCall(const std::string &name, const std::vector<Expr> &args, Where where)
    : value(call(name, args, where)) {}

AttentionCall linear(const Expr &q, const Expr &k, const Expr &v, Where where) {
  return AttentionCall("linear", {q, k, v}, where);
}
AttentionCall softmaxAttention(const Expr &q, const Expr &k, const Expr &v, Where where) {
  return AttentionCall("softmax_attention", {q, k, v}, where);
}

/// The call with one option more: `name`, `name = value`, or `name(form = value)`.
AttentionCall AttentionCall::with(const std::string &option, const std::optional<Expr> &optionValue,
                                  const std::string &form, Where where) const {
  Node result = *value.node();
  if (!result.mistake.empty())
    return *this;
  result.depth = 1;
  result.size = 1;
  builder::Option added{option, where, nullptr, {}};
  if (optionValue && form.empty())
    added.value = optionValue->node();
  else if (optionValue)
    added.args.push_back({form, optionValue->node(), where});
  result.options.push_back(std::move(added));
  return AttentionCall(builder::make(std::move(result)));
}

AttentionCall AttentionCall::causal(Where where) const { return with("causal", {}, "", where); }
AttentionCall AttentionCall::decay(const Expr &g, Where where) const { return with("decay", g, "", where); }
AttentionCall AttentionCall::logDecay(const Expr &a, Where where) const { return with("log_decay", a, "", where); }
AttentionCall AttentionCall::mask(const Expr &m, Where where) const { return with("mask", m, "", where); }
AttentionCall AttentionCall::scale(const Expr &s, Where where) const { return with("scale", s, "", where); }
AttentionCall AttentionCall::normalize(Where where) const { return with("normalize", {}, "", where); }
AttentionCall AttentionCall::normalizeEps(const Expr &c, Where where) const {
  return with("normalize", c, "eps", where);
}
AttentionCall AttentionCall::normalizeClamp(const Expr &c, Where where) const {
  return with("normalize", c, "clamp", where);
}
AttentionCall AttentionCall::normalizeSigned(const Expr &c, Where where) const {
  return with("normalize", c, "signed", where);
}

namespace sampler {
Sampler gaussian() { return {"gaussian", {}}; }
Sampler gaussian(const Expr &scale) { return {"gaussian", {{"scale", scale}}}; }
Sampler orthogonal() { return {"orthogonal", {}}; }
Sampler orthogonal(const Expr &scale) { return {"orthogonal", {{"scale", scale}}}; }
Sampler mixture(const Expr &components) { return {"mixture", {{"components", components}}}; }
Sampler implicit(const Expr &noise, const Expr &hidden) { return {"implicit", {{"noise", noise}, {"hidden", hidden}}}; }
Sampler realnvp(const Expr &layers, const Expr &hidden) {
  return {"realnvp", {{"layers", layers}, {"hidden", hidden}}};
}
Sampler spectralMixture(const Expr &components) { return {"spectral_mixture", {{"components", components}}}; }
} // namespace sampler

Expr Map::operator()(const Expr &x, Where where) const { return call(text, {x}, where); }
Expr Map::operator()(const Expr &x, const Expr &y, Where where) const { return call(text, {x, y}, where); }
Expr Map::operator()(const std::vector<Expr> &args, Where where) const { return call(text, args, where); }

} // namespace yaglom
