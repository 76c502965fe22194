// Building a spec in C++ instead of text: values with operators, the same tree, the same check, errors at the user's line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/spec.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace yaglom {

class AttentionCall;

namespace builder {
struct Node;
struct Scope;
} // namespace builder

/// A dimension by name: what `Spec::dim` returns, or a name that an argument's shape binds: `Arg{"x", {Dim("n")}}`.
class YAGLOM_API Dim {
public:
  explicit Dim(std::string name) : text(std::move(name)) {}
  const std::string &name() const { return text; }

private:
  std::string text;
};

/// A value of a formula, or a size. Cheap to copy. Numbers and dimensions convert to it.
///
///     Expr u = x / pow(f.d(), 0.25);
class YAGLOM_API Expr {
public:
  Expr(double number, std::source_location where = std::source_location::current());
  Expr(const Dim &dim, std::source_location where = std::source_location::current());
  explicit Expr(std::shared_ptr<const builder::Node> node) : pointer(std::move(node)) {}
  const std::shared_ptr<const builder::Node> &node() const { return pointer; }

private:
  std::shared_ptr<const builder::Node> pointer;
};

/// An operand that knows the line it stands in; operators cannot take a source_location themselves.
struct YAGLOM_API Operand {
  Operand(Expr value, std::source_location where = std::source_location::current())
      : value(std::move(value)), where(where) {}
  Operand(double number, std::source_location where = std::source_location::current())
      : value(number, where), where(where) {}
  Operand(const Dim &dim, std::source_location where = std::source_location::current())
      : value(dim, where), where(where) {}
  Operand(const AttentionCall &call, std::source_location where = std::source_location::current());
  Expr value;
  std::source_location where;
};

YAGLOM_API Expr operator+(const Operand &a, const Operand &b);
YAGLOM_API Expr operator-(const Operand &a, const Operand &b);
YAGLOM_API Expr operator*(const Operand &a, const Operand &b); ///< entry by entry
YAGLOM_API Expr operator/(const Operand &a, const Operand &b);
YAGLOM_API Expr operator-(const Operand &a);

/// A call of a function of the language by name: `call("outer", {x, y})`. Those below are the same by their own names.
YAGLOM_API Expr call(const std::string &name, const std::vector<Expr> &args,
                     std::source_location where = std::source_location::current());

#define YAGLOM_FUNCTION(name)                                                                                          \
  YAGLOM_API Expr name(const Expr &x, std::source_location = std::source_location::current());
YAGLOM_FUNCTION(exp)
YAGLOM_FUNCTION(exp2)
YAGLOM_FUNCTION(expm1)
YAGLOM_FUNCTION(log)
YAGLOM_FUNCTION(log1p)
YAGLOM_FUNCTION(sin)
YAGLOM_FUNCTION(cos)
YAGLOM_FUNCTION(tan)
YAGLOM_FUNCTION(tanh)
YAGLOM_FUNCTION(sqrt)
YAGLOM_FUNCTION(rsqrt)
YAGLOM_FUNCTION(abs)
YAGLOM_FUNCTION(sign)
YAGLOM_FUNCTION(erf)
YAGLOM_FUNCTION(relu)
YAGLOM_FUNCTION(elu)
YAGLOM_FUNCTION(sigmoid)
YAGLOM_FUNCTION(softplus)
YAGLOM_FUNCTION(silu)
YAGLOM_FUNCTION(gelu)
YAGLOM_FUNCTION(square)
YAGLOM_FUNCTION(unit)
YAGLOM_FUNCTION(softmax)
YAGLOM_FUNCTION(sum)
YAGLOM_FUNCTION(mean)
YAGLOM_FUNCTION(norm) ///< |x|
#undef YAGLOM_FUNCTION

/// Two arguments.
YAGLOM_API Expr min(const Expr &x, const Expr &y, std::source_location where = std::source_location::current());
YAGLOM_API Expr max(const Expr &x, const Expr &y, std::source_location where = std::source_location::current());
YAGLOM_API Expr max(const Expr &x, std::source_location where = std::source_location::current()); ///< of a row
YAGLOM_API Expr pow(const Expr &x, const Expr &y, std::source_location where = std::source_location::current());
YAGLOM_API Expr matmul(const Expr &matrix, const Expr &vector,
                       std::source_location where = std::source_location::current()); ///< matrix @ vector
YAGLOM_API Expr outer(const Expr &x, const Expr &y, std::source_location where = std::source_location::current());
/// [a; b; ...]
YAGLOM_API Expr stack(const std::vector<Expr> &entries, std::source_location where = std::source_location::current());

YAGLOM_API Expr pi(std::source_location where = std::source_location::current());
YAGLOM_API Expr pos(std::source_location where = std::source_location::current());
YAGLOM_API Expr len(std::source_location where = std::source_location::current());
/// In initial values only.
YAGLOM_API Expr head(std::source_location where = std::source_location::current());
YAGLOM_API Expr heads(std::source_location where = std::source_location::current());
YAGLOM_API Expr index(std::source_location where = std::source_location::current());
YAGLOM_API Expr eye(std::source_location where = std::source_location::current());

/// linear(q, k, v) or softmax_attention(q, k, v), to which options are added; converts to its value.
///
///     return linear(favor(a.Q), favor(a.K), a.V).causal().normalize();
class YAGLOM_API AttentionCall {
public:
  AttentionCall(const std::string &name, const std::vector<Expr> &args, std::source_location where);

  using Where = std::source_location;
  AttentionCall causal(Where where = Where::current()) const;
  AttentionCall decay(const Expr &g, Where where = Where::current()) const;
  AttentionCall logDecay(const Expr &a, Where where = Where::current()) const;
  AttentionCall mask(const Expr &m, Where where = Where::current()) const;
  AttentionCall scale(const Expr &s, Where where = Where::current()) const; ///< softmaxAttention only
  AttentionCall normalize(Where where = Where::current()) const;
  AttentionCall normalizeEps(const Expr &c, Where where = Where::current()) const;
  AttentionCall normalizeClamp(const Expr &c, Where where = Where::current()) const;
  AttentionCall normalizeSigned(const Expr &c, Where where = Where::current()) const;

  operator Expr() const { return value; }

private:
  explicit AttentionCall(Expr value) : value(std::move(value)) {}
  AttentionCall with(const std::string &option, const std::optional<Expr> &optionValue, const std::string &form,
                     Where where) const;
  Expr value;
};

YAGLOM_API AttentionCall linear(const Expr &q, const Expr &k, const Expr &v,
                                std::source_location where = std::source_location::current());
YAGLOM_API AttentionCall softmaxAttention(const Expr &q, const Expr &k, const Expr &v,
                                          std::source_location where = std::source_location::current());

/// A kind of sampler with its options, or a sampler that a spec declares.
class YAGLOM_API Sampler {
public:
  Sampler(std::string name, std::vector<std::pair<std::string, Expr>> options)
      : text(std::move(name)), given(std::move(options)) {}
  const std::string &name() const { return text; }
  const std::vector<std::pair<std::string, Expr>> &options() const { return given; }

private:
  std::string text;
  std::vector<std::pair<std::string, Expr>> given;
};

namespace sampler {
YAGLOM_API Sampler gaussian();
YAGLOM_API Sampler gaussian(const Expr &scale);
YAGLOM_API Sampler orthogonal();
YAGLOM_API Sampler orthogonal(const Expr &scale);
YAGLOM_API Sampler mixture(const Expr &components);
YAGLOM_API Sampler implicit(const Expr &noise, const Expr &hidden);
YAGLOM_API Sampler realnvp(const Expr &layers, const Expr &hidden);
YAGLOM_API Sampler spectralMixture(const Expr &components);
} // namespace sampler

/// An argument of a map. Without a shape it is [d], and [e] when it is called V.
struct YAGLOM_API Arg {
  Arg(std::string name) : name(std::move(name)) {}
  Arg(const char *name) : name(name) {}
  Arg(std::string name, std::vector<Expr> shape) : name(std::move(name)), shape(std::move(shape)) {}
  std::string name;
  std::optional<std::vector<Expr>> shape;
};

/// A map of a spec, to be applied.
class YAGLOM_API Map {
public:
  explicit Map(std::string name) : text(std::move(name)) {}
  Expr operator()(const Expr &x, std::source_location where = std::source_location::current()) const;
  Expr operator()(const Expr &x, const Expr &y, std::source_location where = std::source_location::current()) const;
  Expr operator()(const std::vector<Expr> &args, std::source_location where = std::source_location::current()) const;

private:
  std::string text;
};

/// The body of a map while it is built: what it owns and names, in the order of the calls.
class YAGLOM_API MapScope {
public:
  explicit MapScope(std::shared_ptr<builder::Scope> scope);
  using Where = std::source_location;

  /// The dimension that an argument without a shape binds.
  Expr d(Where where = Where::current()) const;
  Expr e(Where where = Where::current()) const;
  /// A learned tensor that starts at a value, or as a sample. Shared ones are one for all heads.
  Expr param(const std::string &name, const std::vector<Expr> &shape, const Expr &initial,
             Where where = Where::current());
  Expr param(const std::string &name, const std::vector<Expr> &shape, const Sampler &from,
             Where where = Where::current());
  Expr sharedParam(const std::string &name, const std::vector<Expr> &shape, const Expr &initial,
                   Where where = Where::current());
  Expr sharedParam(const std::string &name, const std::vector<Expr> &shape, const Sampler &from,
                   Where where = Where::current());
  /// A random tensor, and a pair of them.
  Expr draw(const std::string &name, const std::vector<Expr> &shape, const Sampler &from,
            Where where = Where::current());
  Expr sharedDraw(const std::string &name, const std::vector<Expr> &shape, const Sampler &from,
                  Where where = Where::current());
  std::pair<Expr, Expr> drawPair(const std::string &first, const std::string &second, const std::vector<Expr> &shape,
                                 const Sampler &from, Where where = Where::current());
  /// Names a value. One that is used several times should have a name.
  Expr let(const std::string &name, const Expr &value, Where where = Where::current());
  /// The halves of a vector.
  std::pair<Expr, Expr> split(const std::string &first, const std::string &second, const Expr &value,
                              Where where = Where::current());
  /// States the shape of the result, which is then checked.
  void returns(const std::vector<Expr> &shape, Where where = Where::current());

private:
  std::shared_ptr<builder::Scope> scope;
};

/// The body of an attention while it is built.
class YAGLOM_API AttentionScope {
public:
  explicit AttentionScope(std::shared_ptr<builder::Scope> scope, std::source_location where);
  using Where = std::source_location;

  Expr Q, K, V;
  /// More inputs of the query token or the key token; {} is a scalar per token.
  Expr queryInput(const std::string &name, const std::vector<Expr> &shape, Where where = Where::current());
  Expr keyInput(const std::string &name, const std::vector<Expr> &shape, Where where = Where::current());

  /// As in a map; d and e are the widths of Q and K, and of V.
  Expr d(Where where = Where::current()) const { return body.d(where); }
  Expr e(Where where = Where::current()) const { return body.e(where); }
  Expr param(const std::string &name, const std::vector<Expr> &shape, const Expr &initial,
             Where where = Where::current()) {
    return body.param(name, shape, initial, where);
  }
  Expr param(const std::string &name, const std::vector<Expr> &shape, const Sampler &from,
             Where where = Where::current()) {
    return body.param(name, shape, from, where);
  }
  Expr sharedParam(const std::string &name, const std::vector<Expr> &shape, const Expr &initial,
                   Where where = Where::current()) {
    return body.sharedParam(name, shape, initial, where);
  }
  Expr draw(const std::string &name, const std::vector<Expr> &shape, const Sampler &from,
            Where where = Where::current()) {
    return body.draw(name, shape, from, where);
  }
  Expr let(const std::string &name, const Expr &value, Where where = Where::current()) {
    return body.let(name, value, where);
  }
  std::pair<Expr, Expr> split(const std::string &first, const std::string &second, const Expr &value,
                              Where where = Where::current()) {
    return body.split(first, second, value, where);
  }

private:
  std::shared_ptr<builder::Scope> scope;
  MapScope body;
};

} // namespace yaglom
