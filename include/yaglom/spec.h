// A spec: one or more feature maps, samplers and attentions, parsed from text or built in C++, and checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom {

namespace ast {
struct File;
}

class AttentionScope;
class Dim;
class Expr;
class Map;
class MapScope;
class Sampler;
struct Arg;

/// A spec. Copies share one immutable tree; using one from several threads is safe, adding to it is not.
///
/// A parsed spec is checked. One that is built in C++ (builder.h) is checked when it is first used, or by check().
class YAGLOM_API Spec {
public:
  /// An empty spec, to be built.
  Spec();
  /// Reads, parses and checks a .phi file. The Error holds every diagnostic, as a compiler prints them.
  static Result<Spec> parseFile(const std::string &path);
  /// The same for a text; `name` stands for the file in messages.
  static Result<Spec> parse(std::string text, std::string name = "spec.phi");

  explicit Spec(std::shared_ptr<const ast::File> file, std::string warnings);
  Spec(const Spec &);
  Spec(Spec &&) noexcept;
  Spec &operator=(const Spec &);
  Spec &operator=(Spec &&) noexcept;
  ~Spec();

  /// Adds a dimension with its default size.
  Dim dim(const std::string &name, int64_t value, std::source_location where = std::source_location::current());
  /// Adds a sampler of `kind`: `spec.sampler("flow", sampler::realnvp(4, 64))`. A shared one has one set of parameters for
  /// all heads.
  Sampler sampler(const std::string &name, const Sampler &kind,
                  std::source_location where = std::source_location::current());
  Sampler sharedSampler(const std::string &name, const Sampler &kind,
                        std::source_location where = std::source_location::current());
  /// Adds a map of one argument `x: [d]`. The body runs once, now.
  Map map(const std::string &name, const std::function<Expr(MapScope &, Expr)> &body,
          std::source_location where = std::source_location::current());
  /// Adds a map of several arguments.
  Map map(const std::string &name, const std::vector<Arg> &args,
          const std::function<Expr(MapScope &, const std::vector<Expr> &)> &body,
          std::source_location where = std::source_location::current());
  /// Adds an attention over Q, K and V. The body runs once, now.
  void attention(const std::string &name, const std::function<Expr(AttentionScope &)> &body,
                 std::source_location where = std::source_location::current());
  /// Adds the loss kl(p, q, samples).
  void loss(const std::string &name, const Sampler &p, const Sampler &q, const Expr &samples,
            std::source_location where = std::source_location::current());
  /// Checks what was built. The Error names the lines of the C++ program.
  Result<void> check();

  /// Names of the attentions, in order of declaration.
  std::vector<std::string> attentions() const;
  /// Warnings of the check, as a compiler prints them; empty when there are none.
  const std::string &warnings() const;
  /// The canonical text: parsing it gives the same spec; equal specs have equal texts.
  std::string print() const;

  /// The tree; for the compiler.
  const ast::File &file() const { return *tree; }

private:
  Sampler declareSampler(const std::string &name, const Sampler &kind, bool shared, std::source_location where);

  std::shared_ptr<const ast::File> tree;
  std::string warningText;
};

} // namespace yaglom
