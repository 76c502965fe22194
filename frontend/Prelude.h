// The functions that are written in the language itself (prelude.phi).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Ast.h"

#include <string_view>

namespace yaglom {

/// The parsed prelude. Its ranges point into its own source, never into a user's.
const ast::File &prelude();

/// The function that a call of `name` in `file` means: the file's own or the prelude's; null when it is no `fn`.
const ast::FnDecl *findFn(const ast::File &file, std::string_view name);

} // namespace yaglom
