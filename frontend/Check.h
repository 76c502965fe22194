// Checks a parsed spec: names, shapes, sides and every other rule of language.md section 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Parser.h"

namespace yaglom {

/// Limit of one map or attention, every call counted with what it calls.
constexpr uint64_t kMaxOperations = 100'000;

/// Reports every mistake of `file`. Without an error the later layers need not look for one, except for sizes that are
/// known only once dimensions are bound (`instantiate`).
void check(const ast::File &file, const BrokenNames &broken, Dialect dialect, Diagnostics &diagnostics);

} // namespace yaglom
