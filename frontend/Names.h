// The first half of the check: what every name stands for, arity, options, recursion. No shapes yet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Parser.h"
#include "frontend/Symbols.h"

namespace yaglom {

/// Reports unknown, repeated, reserved, misplaced and unused names, wrong numbers of arguments, wrong options.
/// Declarations with a mistake are added to `symbols.bad`.
void checkNames(const ast::File &file, const BrokenNames &broken, Dialect dialect, Symbols &symbols,
                Diagnostics &diagnostics);

/// Reports recursion, and what is larger than kMaxOperations or nested deeper than kMaxNesting once every call is
/// replaced by what it calls. False when the spec as a whole is too large to be followed.
bool checkCalls(const ast::File &file, Symbols &symbols, Diagnostics &diagnostics);

/// Reports unknown, repeated, conflicting and malformed options after `with`.
void checkOptions(const ast::Expr &call, Diagnostics &diagnostics);

/// Where a sampler is named: decides what it may be.
enum class DrawPlace { Declaration, Param, Draw };

/// Reports an unknown sampler, wrong options, and samplers that cannot stand there (T10).
/// `binding` is null in a declaration.
void checkDrawSpec(const ast::DrawSpec &spec, DrawPlace place, const ast::Binding *binding, const Symbols &symbols,
                   const BrokenNames &broken, Diagnostics &diagnostics);

} // namespace yaglom
