// What the names of a spec mean: file-level declarations, the prelude, dimensions bound by arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Ast.h"
#include "frontend/Diagnostics.h"
#include "frontend/Dims.h"

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace yaglom {

/// The file-level names of a spec, the first declaration of each.
class Symbols {
public:
  explicit Symbols(const ast::File &file);

  template <typename T>
  const T *find(const std::string &name) const {
    auto found = decls.find(name);
    return found == decls.end() ? nullptr : std::get_if<T>(found->second);
  }
  const ast::Decl *find(const std::string &name) const;
  /// The file's own `fn` of that name, or the prelude's.
  const ast::FnDecl *findFn(const std::string &name) const;
  /// Whether the declaration had a mistake: what depends on it is not looked at any more.
  bool isBad(const std::string &name) const { return bad.contains(name); }

  std::unordered_set<std::string> bad;

private:
  std::unordered_map<std::string, const ast::Decl *> decls;
};

const ast::Identifier &idOf(const ast::Decl &decl);
/// "a map", "an attention", ...
std::string_view kindOf(const ast::Decl &decl);

/// The sizes of an argument: as written, or [e] for V and [d] for any other (language.md section 2).
std::vector<ast::ExprRef> sizesOf(const ast::Arg &arg);
/// The name that a size consists of, or null.
const std::string *loneName(const ast::Expr &size);

/// What a name in a size stands for; none when it is unknown.
using DimLookup = std::function<std::optional<Poly>(const std::string &)>;
/// A size as a polynomial (T2). A mistake is reported if `diagnostics` is given; the result is invalid then.
Poly sizeOf(const ast::Expr &size, const DimLookup &lookup, Diagnostics *diagnostics);

/// Two expressions that are written the same. Looks a few levels deep only; then it says no.
bool sameExpr(const ast::Expr &a, const ast::Expr &b, int levels = 6);

/// Below a binary operator the left operands form a chain of up to 4096: walks must loop along it, not recurse.
bool isBinary(const ast::Expr &e);

} // namespace yaglom
