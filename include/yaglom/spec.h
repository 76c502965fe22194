// A spec: one or more feature maps, samplers and attentions, parsed from text or built in C++, and checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom {

namespace ast {
struct File;
}

/// A checked spec. Copies share one immutable tree; safe to use from several threads.
class YAGLOM_API Spec {
public:
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

  /// Names of the attentions, in order of declaration.
  std::vector<std::string> attentions() const;
  /// Warnings of the check, as a compiler prints them; empty when there are none.
  const std::string &warnings() const;
  /// The canonical text: parsing it gives the same spec; equal specs have equal texts.
  std::string print() const;

  /// The tree; for the compiler.
  const ast::File &file() const { return *tree; }

private:
  std::shared_ptr<const ast::File> tree;
  std::string warningText;
};

} // namespace yaglom
