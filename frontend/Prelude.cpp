// Parses prelude.phi, which the build embeds as text.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Prelude.h"
#include "frontend/Parser.h"

#include <cassert>

namespace yaglom {
namespace {

constexpr const char *kText =
#include "frontend/prelude.inc"
    ;

} // namespace

const ast::File &prelude() {
  static const ast::File file = [] {
    Diagnostics diagnostics;
    Parsed parsed = parse(kText, "prelude.phi", Dialect::Spec, diagnostics);
    assert(diagnostics.empty() && "the prelude does not parse");
    return std::move(parsed.file);
  }();
  return file;
}

const ast::FnDecl *findFn(const ast::File &file, std::string_view name) {
  std::string key(name);
  if (const ast::FnDecl *own = file.find<ast::FnDecl>(key))
    return own;
  return prelude().find<ast::FnDecl>(key);
}

} // namespace yaglom
