// Messages to the author of a spec, as a compiler prints them: place, source line, carets, notes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Ast.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace yaglom {

enum class Severity { Error, Warning };

/// A remark below a diagnostic, such as where the conflicting name is declared.
struct Note {
  ast::Range range;
  std::string message;
};

struct Diagnostic {
  Severity severity = Severity::Error;
  ast::Range caret;
  std::vector<ast::Range> underlines; ///< operands, drawn with '~' where they share the caret's line
  std::string message;
  std::vector<Note> notes;
};

/// Collects the messages of one spec and prints them in the order of the source.
class Diagnostics {
public:
  /// More messages than this are dropped, and the text says so.
  static constexpr size_t kMaxMessages = 64;

  void error(ast::Range caret, std::string message, std::vector<ast::Range> underlines = {},
             std::vector<Note> notes = {});
  void warning(ast::Range caret, std::string message, std::vector<ast::Range> underlines = {},
               std::vector<Note> notes = {});
  /// An error about the whole file, without a place in it.
  void fileError(std::string message);

  bool hasErrors() const { return errors > 0; }
  /// Errors so far, repeated ones too: whether a piece of work had any.
  size_t errorCount() const { return errors; }
  /// Whether messages are dropped already: no effort should go into more of them.
  bool full() const { return truncated; }
  bool empty() const { return list.empty() && fileErrors.empty(); }
  /// All messages, sorted by place. `sources` are those of the ast::File that the ranges point into.
  std::string render(const std::vector<ast::Source> &sources) const;

private:
  void add(Diagnostic diagnostic);

  std::vector<Diagnostic> list;
  std::vector<std::string> fileErrors;
  std::set<std::tuple<uint32_t, uint32_t, std::string>> seen; ///< the same message at the same place is said once
  size_t errors = 0;
  bool truncated = false;
};

/// "; did you mean 'softmax'?" for the nearest of `candidates` by edit distance, or "" when none is near.
std::string didYouMean(std::string_view name, const std::vector<std::string_view> &candidates);

} // namespace yaglom
