// The name checker's class, shared by its two files: declarations and expressions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Builtins.h"
#include "frontend/Names.h"

#include <set>

namespace yaglom {

class NameChecker {
public:
  NameChecker(const ast::File &file, const BrokenNames &broken, Dialect dialect, Symbols &symbols,
              Diagnostics &diagnostics)
      : tree(file), broken(broken), dialect(dialect), symbols(symbols), diagnostics(diagnostics) {}

  void run();

private:
  enum class What { Arg, Size, Param, Draw, Let };
  struct Local {
    What what;
    ast::Range range;
    bool shared = false;
    bool used = false;
  };
  /// What an expression is for, which decides the names that it may use.
  enum class Where { Value, Initial, SharedInitial, Option };
  enum class Owner { Fn, Map, Attention, File };

  // NamesDecls.cpp
  void fileLevel(const ast::Decl &decl, std::set<std::string> &seen);
  void reserved(const ast::Identifier &id);
  void check(const ast::DimDecl &decl);
  void check(const ast::SamplerDecl &decl);
  void check(const ast::FnDecl &decl);
  void check(const ast::MapDecl &decl);
  void check(const ast::AttentionDecl &decl);
  void check(const ast::LossDecl &decl);
  void args(const std::vector<ast::Arg> &list, bool attention);
  void body(const ast::Body &body);
  void binding(const ast::Binding &binding);
  void declare(const ast::Identifier &id, Local local);
  void sizes(const std::vector<ast::ExprRef> &list, const ast::Range &range);
  void unknownDimension(const ast::Expr &size);
  void drawSpec(const ast::DrawSpec &spec, DrawPlace place, const ast::Binding *binding);
  void unused();
  bool isBroken(const std::string &name);

  // NamesExpr.cpp
  void expr(const ast::Expr &e, Where where);
  void leaf(const ast::Expr &e, Where where);
  void call(const ast::Expr &e, Where where);
  void specialCall(const ast::Expr &e, Where where, const Special &special);
  void unknownFunction(const ast::Expr &e);
  void arity(const ast::Expr &e, size_t least, size_t most, const ast::Identifier *declared);
  void name(const ast::Expr &e, Where where);
  bool constantName(const ast::Expr &e, Where where);
  void initialName(const ast::Expr &e, Where where, const Local &local);
  void unknownName(const ast::Expr &e);
  bool isDimension(const std::string &name) const;

  const ast::File &tree;
  const BrokenNames &broken;
  Dialect dialect;
  Symbols &symbols;
  Diagnostics &diagnostics;
  std::set<std::string, std::less<>> boundAnywhere; ///< names that some argument binds: a fn may mean its caller's

  // Of the declaration at hand.
  Owner owner = Owner::File;
  bool usesBroken = false; ///< it depends on a declaration that could not be read
  std::map<std::string, Local> locals;
  std::map<std::string, ast::Range> later; ///< declared below the binding at hand
};

} // namespace yaglom
