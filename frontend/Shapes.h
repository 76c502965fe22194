// The second half of the check: shape, side and sign of every value, every call followed into what it calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "frontend/Lexer.h"
#include "frontend/Samplers.h"
#include "frontend/Symbols.h"

#include <limits>

namespace yaglom {

/// What is known of a value (T1, T12).
struct Value {
  bool valid = false; ///< false: a mistake was reported already; whatever depends on it is silent
  PolyShape shape;
  Side side = Side::None;
  double low = -std::numeric_limits<double>::infinity(); ///< no entry is below; 0 and more count as positive
  bool constant = false;                                 ///< made of numbers, dimensions and pi
  std::optional<double> number;                          ///< a scalar that is known now
};

/// What names mean while one body is walked.
struct Frame {
  struct Local {
    Value value;
    ast::Range declared;
  };
  std::string name; ///< of the map or attention, for messages
  std::unordered_map<std::string, Local> locals;
  std::map<std::string, Poly> dims; ///< dimensions that arguments bind
  bool tokens = false;              ///< pos and len mean something
  bool attends = false;             ///< linear may stand here
  bool hasRow = false;              ///< inside a map: `pos` is of its row
  Side row = Side::None;
  std::optional<PolyShape> initialOf; ///< in an initial value: the shape of the param
  std::string widthD, widthE;         ///< whose widths d and e are
};

/// A map or attention that owns params or draws, at the width where one attention applies it (T14).
struct OwnerUse {
  const ast::Identifier *id = nullptr;
  const ast::Body *body = nullptr;
  std::map<std::string, Poly> dims;
  ast::Range firstCall;
};

/// What one attention uses.
struct AttentionUse {
  std::vector<OwnerUse> owners;
  Value result;
};

/// Walks bodies. With `bound`, dimensions have values, and a size that is no positive integer is a mistake too.
class ShapeChecker {
public:
  ShapeChecker(const Symbols &symbols, Dialect dialect, Diagnostics &diagnostics, const DimValues *bound = nullptr)
      : symbols(symbols), dialect(dialect), diagnostics(diagnostics), bound(bound) {}

  /// A map by itself: whatever its arguments are.
  void checkMap(const ast::MapDecl &map);
  AttentionUse checkAttention(const ast::AttentionDecl &attention);
  /// The options of a kind, complete. Reports values that are wrong; unknown ones are left out.
  SamplerOptions options(const SamplerKind &kind, const ast::DrawSpec &spec, const std::map<std::string, Poly> &dims);
  /// A constant such as `samples = 2*m`: reported unless it is a positive integer; none when it is not known yet.
  std::optional<double> positiveConstant(const ast::Expr &e, std::string_view what, bool integer,
                                         const std::map<std::string, Poly> &dims);
  /// A size of the declaration, checked when bound.
  Poly size(const ast::Expr &e, const std::map<std::string, Poly> &dims);
  /// `value` as an integer when bound; reported at `at` if it is none.
  std::optional<int64_t> integer(const Poly &value, const ast::Range &at);

private:
  // ShapesExpr.cpp
  Value eval(const ast::Expr &e, Frame &frame);
  Value leaf(const ast::Expr &e, Frame &frame);
  Value name(const ast::Expr &e, Frame &frame);
  Value languageName(const ast::Expr &e, Frame &frame);
  Value dimension(const Poly &poly);
  Value binary(const ast::Expr &e, const Value &a, const Value &b, Frame &frame);
  Value pointwise(const ast::Expr &e, const Value &a, const Value &b, Frame &frame);
  Value matVec(const ast::Expr &e, const Value &a, const Value &b, Frame &frame);
  Value stack(const ast::Expr &e, Frame &frame);
  Value rowToScalar(const ast::Expr &e, std::string_view what, const ast::Range &caret, const Value &x);
  void warnPower(const ast::Expr &e, const Value &exponent, const Frame &frame);
  std::optional<Side> joinSides(Side a, Side b, const ast::Range &caret, std::vector<ast::Range> underlines);
  Value sized(Value value, const ast::Range &at);

  // ShapesCalls.cpp
  Value call(const ast::Expr &e, Frame &frame);
  Value elementary(const ast::Expr &e, const std::vector<Value> &args, Frame &frame);
  Value special(const ast::Expr &e, const std::vector<Value> &args, Frame &frame);
  Value outer(const ast::Expr &e, const Value &x, const Value &y);
  Value internal(const ast::Expr &e, const std::vector<Value> &args);
  Value fn(const ast::Expr &e, const ast::FnDecl &decl, const std::vector<Value> &args, Frame &frame);
  Value map(const ast::Expr &e, const ast::MapDecl &decl, const std::vector<Value> &args);
  bool bindArg(const ast::Expr &call, const ast::MapDecl &decl, size_t index, const Value &value, Frame &inner,
               bool lone);
  std::optional<Poly> lookup(const std::string &name, const std::map<std::string, Poly> &dims) const;
  void own(const ast::Expr *call, const ast::Identifier &id, const ast::Body &body, const Frame &frame);

  // ShapesLinear.cpp
  Value attend(const ast::Expr &e, const std::vector<Value> &args, Frame &frame);
  void option(const ast::Option &option, const Value &q, const Value &k, Frame &frame);
  void normalize(const ast::Option &option, const Value &q, const Value &k, Frame &frame);
  Value scalarOption(const ast::Option &option, Frame &frame);

  // ShapesDecls.cpp
  Value body(const ast::Body &body, Frame &frame);
  void binding(const ast::Binding &binding, Frame &frame);
  void split(const ast::Binding &binding, Frame &frame);
  void initial(const ast::Binding &binding, const PolyShape &shape, Frame &frame);
  void bindNames(const std::vector<ast::Arg> &args, Frame &frame);
  Value argument(const ast::Arg &arg, Side side, Frame &frame);

  void error(const ast::Range &caret, std::string message, std::vector<ast::Range> underlines = {},
             std::vector<Note> notes = {});
  void warning(const ast::Range &caret, std::string message);
  std::pair<ast::Range, std::vector<Note>> place(const ast::Range &caret) const;

  /// Calls that are being followed, outermost first.
  struct CallSite {
    ast::Range name;
    std::string callee;
    bool prelude = false;
  };

  const Symbols &symbols;
  Dialect dialect;
  Diagnostics &diagnostics;
  const DimValues *bound;
  std::vector<CallSite> calls;
  AttentionUse *use = nullptr;                                 ///< of the attention being walked
  std::unordered_map<std::string, Frame::Local> formulaParams; ///< of a sampler's `sample`, seen by its densities
};

/// "query-side [n]", "[n, d]": how messages call a value.
std::string describe(const Value &value);
/// "[n, d]", "a scalar": where the side does not matter, as in a map, which has either.
std::string describeShape(const Value &value);
/// Whether the body has params or draws.
bool ownsTensors(const ast::Body &body);
/// Why two shapes differ: "n is not 2*n", or nothing when their ranks differ.
std::string difference(const PolyShape &a, const PolyShape &b);

} // namespace yaglom
