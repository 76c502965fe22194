// The call graph: recursion, and the size of everything once calls are replaced by what they call.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Check.h"
#include "frontend/Names.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

namespace yaglom {
namespace {

/// A fn, map or attention as a node of the call graph.
struct Node {
  const ast::Identifier *id = nullptr;
  std::vector<const ast::Expr *> roots; ///< its expressions
  std::vector<std::pair<Node *, const ast::Expr *>> calls;
  std::vector<Node *> callers;
  size_t openCalls = 0; ///< to nodes whose size is not known yet
  uint64_t operations = 0;
  uint32_t nesting = 0;
  bool done = false;
  bool onPath = false;
  bool refused = false; ///< too large, or calls something that is
};

class CallGraph {
public:
  CallGraph(const ast::File &file, Symbols &symbols, Diagnostics &diagnostics)
      : symbols(symbols), diagnostics(diagnostics) {
    for (const ast::Decl &decl : file.decls)
      if (symbols.find(idOf(decl).name) == &decl)
        add(decl);
  }

  bool run() {
    for (Node &node : nodes)
      for (const ast::Expr *root : node.roots)
        findCalls(node, *root);
    std::vector<Node *> ready;
    for (Node &node : nodes)
      if (node.openCalls == 0)
        ready.push_back(&node);
    uint64_t total = 0;
    while (!ready.empty()) {
      Node *node = ready.back();
      ready.pop_back();
      measure(*node);
      total += node->operations;
      for (Node *caller : node->callers)
        if (--caller->openCalls == 0)
          ready.push_back(caller);
    }
    recursion();
    // Each map and attention is walked with all that it calls: the limit on the sum bounds the checker's time.
    if (total > kMaxTotal)
      diagnostics.fileError(fmt::format("more than {} operations in all after inlining", kMaxTotal));
    return total <= kMaxTotal;
  }

private:
  static constexpr uint64_t kMaxTotal = 2'000'000;

  void add(const ast::Decl &decl) {
    Node node;
    node.id = &idOf(decl);
    auto body = [&](const ast::Body &b) {
      for (const ast::Binding &binding : b.bindings)
        if (binding.value)
          node.roots.push_back(binding.value.get());
      node.roots.push_back(b.result.get());
    };
    if (const auto *fn = std::get_if<ast::FnDecl>(&decl))
      node.roots.push_back(fn->body.get());
    else if (const auto *map = std::get_if<ast::MapDecl>(&decl))
      body(map->body);
    else if (const auto *attention = std::get_if<ast::AttentionDecl>(&decl))
      body(attention->body);
    else
      return;
    nodes.push_back(std::move(node));
    if (!std::holds_alternative<ast::AttentionDecl>(decl))
      byName[nodes.back().id->name] = &nodes.back();
  }

  template <typename Visit>
  static void children(const ast::Expr &e, Visit visit) {
    for (const ast::ExprRef &arg : e.args)
      visit(*arg);
    for (const ast::Option &option : e.options) {
      if (option.value)
        visit(*option.value);
      for (const ast::NamedArg &arg : option.args)
        visit(*arg.value);
    }
  }

  Node *callee(const ast::Expr &e) {
    if (e.kind != ast::ExprKind::Call)
      return nullptr;
    auto found = byName.find(e.name);
    return found == byName.end() ? nullptr : found->second;
  }

  void findCalls(Node &node, const ast::Expr &root) {
    std::vector<const ast::Expr *> open = {&root};
    while (!open.empty()) {
      const ast::Expr *e = open.back();
      open.pop_back();
      if (Node *target = callee(*e)) {
        node.calls.emplace_back(target, e);
        target->callers.push_back(&node);
        ++node.openCalls;
      }
      children(*e, [&](const ast::Expr &child) { open.push_back(&child); });
    }
  }

  void measure(Node &node) {
    node.done = true;
    // Said once, of what is called; not again of all that call it.
    if (std::any_of(node.calls.begin(), node.calls.end(), [](auto &c) { return c.first->refused; })) {
      node.refused = true;
      symbols.bad.insert(node.id->name);
      return;
    }
    for (const ast::Expr *root : node.roots)
      node.nesting = std::max(node.nesting, measure(node, *root));
    if (node.operations > kMaxOperations)
      report(node, fmt::format("'{}' has more than {} operations after inlining", node.id->name, kMaxOperations));
    else if (node.nesting > kMaxNesting)
      report(node, fmt::format("'{}' is nested deeper than {} after inlining", node.id->name, kMaxNesting));
  }

  void report(Node &node, std::string message) {
    diagnostics.error(node.id->range, std::move(message));
    symbols.bad.insert(node.id->name);
    node.refused = true;
    node.operations = 0;
  }

  /// Counts the operations below `e` and returns how deep they are nested, chains apart, as the parser counts.
  uint32_t measure(Node &node, const ast::Expr &e) {
    uint32_t deepest = 0;
    const ast::Expr *left = &e;
    for (; isBinary(*left); left = left->args[0].get()) {
      ++node.operations;
      deepest = std::max(deepest, measure(node, *left->args[1]));
    }
    if (left->kind == ast::ExprKind::Number || left->kind == ast::ExprKind::Name)
      return deepest;
    ++node.operations;
    uint32_t inside = 0;
    if (Node *target = callee(*left)) {
      node.operations += target->operations;
      inside = target->nesting;
    }
    children(*left, [&](const ast::Expr &child) { inside = std::max(inside, measure(node, child)); });
    return std::max(deepest, inside + 1);
  }

  /// What could not be measured calls itself, or something that does. Says each circle once.
  void recursion() {
    for (Node &start : nodes) {
      std::vector<Node *> path;
      for (Node *at = &start; at && !at->done; at = next(*at)) {
        if (std::exchange(at->onPath, true)) {
          circle({std::find(path.begin(), path.end(), at), path.end()});
          break;
        }
        path.push_back(at);
      }
      for (Node *node : path) {
        node->done = true;
        symbols.bad.insert(node->id->name);
      }
    }
  }

  static Node *next(const Node &node) {
    for (const auto &[target, call] : node.calls)
      if (!target->done)
        return target;
    return nullptr;
  }

  void circle(std::vector<Node *> nodesInCircle) {
    auto first = std::min_element(nodesInCircle.begin(), nodesInCircle.end(),
                                  [](Node *a, Node *b) { return a->id->range.begin < b->id->range.begin; });
    Node *target = next(**first);
    auto call =
        std::find_if((*first)->calls.begin(), (*first)->calls.end(), [&](auto &c) { return c.first == target; });
    std::string through = target == *first ? "" : fmt::format(" through '{}'", target->id->name);
    diagnostics.error(call->second->op,
                      fmt::format("'{}' calls itself{}: recursion is not allowed", (*first)->id->name, through), {},
                      {{target->id->range, fmt::format("'{}' is declared here", target->id->name)}});
  }

  Symbols &symbols;
  Diagnostics &diagnostics;
  std::deque<Node> nodes; ///< a deque: nodes point to each other
  std::unordered_map<std::string, Node *> byName;
};

} // namespace

bool checkCalls(const ast::File &file, Symbols &symbols, Diagnostics &diagnostics) {
  return CallGraph(file, symbols, diagnostics).run();
}

} // namespace yaglom
