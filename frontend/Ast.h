// The abstract syntax tree that the parser and the C++ builder both produce.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace yaglom::ast {

/// A byte range [begin, end) of one source of a File. A source is a text file, or one call of the C++ builder.
struct Range {
  uint32_t source = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// What a Range points into. For a text, `text` is the whole file; a builder call has only a name and a line.
struct Source {
  std::string name;
  std::string text;
  uint32_t line = 0; ///< builder calls: the user's line in `name`, from 1; 0 for a text.
};

/// Line and column of a place in a source, from 1; columns count bytes.
struct Position {
  uint32_t line = 1;
  uint32_t column = 1;
  bool operator==(const Position &) const = default;
};

inline Position positionOf(const Source &source, uint32_t offset) {
  if (source.line)
    return {source.line, 1};
  Position position;
  for (char c : source.text.substr(0, offset)) {
    position.line += c == '\n';
    position.column = c == '\n' ? 1 : position.column + 1;
  }
  return position;
}

struct Expr;
/// Expressions are immutable and shared: the builder's values may appear in several places.
using ExprRef = std::shared_ptr<const Expr>;

enum class ExprKind { Number, Name, Negate, Add, Subtract, Multiply, Divide, MatVec, Power, Norm, Stack, Call };

/// `name = value` inside a call or a draw.
struct NamedArg {
  std::string name;
  Range range; ///< of the name
  ExprRef value;
};

/// One option after `with`: `causal`, `decay = g`, `normalize(eps = c)`.
struct Option {
  std::string name;
  Range range;   ///< of the name
  ExprRef value; ///< after '=', or null
  bool hasParentheses = false;
  std::vector<NamedArg> args; ///< inside '(...)'
};

struct Expr {
  ExprKind kind;
  Range range = {};                 ///< the whole expression, without enclosing parentheses
  Range op = {};                    ///< the operator, the name of a call, the opening bracket of |x| and [a; b]
  double number = 0;                ///< Number
  std::string name = {};            ///< Name, Call
  std::vector<ExprRef> args = {};   ///< operands, entries, positional arguments
  std::vector<NamedArg> named = {}; ///< Call: named arguments
  std::vector<Option> options = {}; ///< Call: options after `with`
  uint32_t depth = 1;               ///< height of this tree; bounds every recursion over it
};

struct Identifier {
  std::string name;
  Range range;
};

/// One size per axis, polynomials in dimension names (T2).
struct Shape {
  Range range; ///< with the brackets
  std::vector<ExprRef> sizes;
};

struct Arg {
  Identifier id;
  std::optional<Shape> shape;
};

/// `sampler(option = value, ...)` as written after '~' or in a sampler declaration.
struct DrawSpec {
  Identifier sampler;
  std::vector<NamedArg> options;
};

enum class BindingKind { Param, Draw, Let };

struct Binding {
  BindingKind kind;
  Range range;
  bool shared = false;
  std::vector<Identifier> names; ///< one, or two for a pair
  std::optional<Shape> shape;    ///< Param, Draw
  ExprRef value;                 ///< Let: the value; Param: the initial value, or null when it starts from a sampler
  std::optional<DrawSpec> draw;  ///< Draw, and Param that starts as a sample
};

struct Body {
  std::vector<Binding> bindings;
  ExprRef result;
};

struct DimDecl {
  Identifier id;
  int64_t value = 0;
  Range valueRange;
};
struct SamplerDecl {
  Identifier id;
  bool shared = false;
  DrawSpec draw;
};
struct FnDecl {
  Identifier id;
  std::vector<Identifier> params;
  ExprRef body;
};
struct MapDecl {
  Identifier id;
  std::vector<Arg> args;
  std::optional<Shape> result; ///< after '->'
  Body body;
};
struct AttentionDecl {
  Identifier id;
  std::vector<Arg> queryArgs; ///< before ';'
  std::vector<Arg> keyArgs;   ///< after ';'
  Body body;
};
struct LossDecl {
  Identifier id;
  ExprRef call;
};

using Decl = std::variant<DimDecl, SamplerDecl, FnDecl, MapDecl, AttentionDecl, LossDecl>;

/// What the C++ builder could not put into the tree.
struct Mistake {
  Range range;
  std::string message;
};

/// A whole spec, in the order of declaration.
struct File {
  std::vector<Source> sources;
  std::vector<Decl> decls;
  bool checked = false;          ///< without an error; a spec from the builder is checked when it is first used
  std::vector<Mistake> mistakes; ///< builder only

  /// The declaration of that name and type, or null.
  template <typename T>
  const T *find(const std::string &name) const {
    for (const Decl &decl : decls)
      if (const T *d = std::get_if<T>(&decl); d && d->id.name == name)
        return d;
    return nullptr;
  }
};

} // namespace yaglom::ast
