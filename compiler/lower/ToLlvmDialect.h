// What lowered programs of every target are converted by: arithmetic, math, branches and functions to the LLVM dialect.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace yaglom::compiler {

/// Converts a module whose control flow is branches and whose vectors need no more than arithmetic. An index becomes an integer of
/// `indexBits`. One conversion for all dialects: each walks the module, keeps books for a rollback and casts what it meets.
mlir::LogicalResult convertToLlvmDialect(mlir::ModuleOp module, unsigned indexBits);

} // namespace yaglom::compiler
