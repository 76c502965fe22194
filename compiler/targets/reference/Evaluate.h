// Evaluates the expressions, maps and functions of a spec for one head, straight from the syntax tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Value.h"
#include "frontend/Instance.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace yaglom::reference {

/// The names that an expression sees.
template <typename S>
struct Scope {
  std::map<std::string, Value<S>> values; ///< arguments, params, draws, lets
  std::map<std::string, ast::ExprRef> lets;
  DimValues dims;
  std::optional<Value<S>> position; ///< `pos`, inside maps
};

/// What is the same for all expressions of one head.
template <typename S>
struct Environment {
  const ast::File *file = nullptr;
  DimValues dims; ///< of the file's `dim`s as bound
  /// The parameter or draw of that full name, for this head.
  std::function<Value<S>(const std::string &)> tensor;
  std::string self;      ///< in the formula of a sampler: its name, for `self.W0`
  int64_t queryRows = 0; ///< tokens on the query side
  int64_t keyRows = 0;   ///< tokens on the key side
  int64_t length() const { return std::max(queryRows, keyRows); }
};

template <typename S>
class Evaluator {
public:
  explicit Evaluator(Environment<S> environment) : env(std::move(environment)) {}

  Value<S> evaluate(const ast::Expr &expr, const Scope<S> &scope) const;

  /// A block of params, draws and lets and its result. Params and draws are the tensors "owner.NAME".
  Value<S> evaluateBody(const ast::Body &body, const std::string &owner, Scope<S> scope) const;

  /// A map applied to every row of its arguments; `pos` counts them from 1.
  Value<S> applyMap(const ast::MapDecl &map, const std::vector<Value<S>> &args) const;

  /// The same, all rows at once: in the formula of a sampler a row may depend on which row it is.
  Value<S> applyToAllRows(const ast::MapDecl &map, const std::vector<Value<S>> &args, int64_t firstPosition) const;

private:
  Value<S> name(const ast::Expr &expr, const Scope<S> &scope) const;
  Value<S> add(const ast::Expr &expr, const Scope<S> &scope) const;
  Value<S> call(const ast::Expr &expr, const Scope<S> &scope) const;
  Value<S> special(const ast::Expr &expr, const std::vector<Value<S>> &args, const Scope<S> &scope) const;
  Value<S> attention(const ast::Expr &expr, std::vector<Value<S>> args, const Scope<S> &scope) const;
  Value<S> applyFn(const ast::FnDecl &fn, std::vector<Value<S>> args, const Scope<S> &caller) const;
  void bind(const ast::Binding &binding, const std::string &owner, Scope<S> &scope) const;
  const ast::Expr *eluArgument(const ast::Expr &expr, const Scope<S> &scope) const;

  Environment<S> env;
};

extern template class Evaluator<Wide>;
extern template class Evaluator<WideDual>;

} // namespace yaglom::reference
