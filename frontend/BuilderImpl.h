// The C++ builder's own tree: expressions that know their line of C++ before they belong to a spec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Ast.h"
#include "yaglom/builder.h"

#include <map>

namespace yaglom::builder {

using NodeRef = std::shared_ptr<const Node>;

struct Named {
  std::string name;
  NodeRef value;
  std::source_location where;
};

struct Option {
  std::string name;
  std::source_location where;
  NodeRef value;
  std::vector<Named> args;
};

/// Like ast::Expr, with a place in C++. Immutable and shared.
struct Node {
  ast::ExprKind kind = ast::ExprKind::Number;
  std::source_location where;
  double number = 0;
  std::string name;
  std::vector<NodeRef> args;
  std::vector<Option> options;
  uint32_t depth = 1;
  uint64_t size = 1;   ///< as a tree: shared parts count as often as they occur
  std::string mistake; ///< why this node could not be made; it stands for 0 then
};

/// Completes a node: its height and size, which are limited like those of a text.
Expr make(Node node);

/// Collects one declaration's bindings and converts nodes to the tree of the spec they end in.
struct Scope {
  explicit Scope(ast::File *file) : file(file) {}

  ast::File *file;
  ast::Body body;
  std::optional<ast::Shape> result;         ///< maps
  std::vector<ast::Arg> queryArgs, keyArgs; ///< attentions

  ast::Range range(std::source_location where);
  ast::Identifier identifier(const std::string &name, std::source_location where);
  ast::ExprRef convert(const Expr &value);
  ast::Shape shape(const std::vector<Expr> &sizes, std::source_location where);
  ast::DrawSpec drawSpec(const Sampler &sampler, std::source_location where);
  ast::Binding &bind(ast::BindingKind kind, const std::vector<std::string> &names, std::source_location where);

private:
  ast::ExprRef convertOne(const Node &node);
  ast::Option convertOption(const Option &option);

  std::map<const Node *, ast::ExprRef> done;
  std::vector<NodeRef> keep; ///< keeps the keys of `done` alive: a new node must not get an old one's address
  std::map<std::pair<std::string, uint32_t>, uint32_t> sources;
};

} // namespace yaglom::builder
