// The canonical text of a syntax tree: parsing it gives the same tree, printing that gives the same text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Ast.h"

#include <string>

namespace yaglom {

/// One declaration a line, bodies with bindings in lines of their own; fewest parentheses; shortest numbers.
std::string print(const ast::File &file);
/// One expression: "(W1 + W2) / 2 @ x".
std::string print(const ast::Expr &e);

} // namespace yaglom
