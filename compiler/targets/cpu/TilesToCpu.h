// From a tile program to loops over vectors: phi-tiles-to-cpu.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/cpu/Machine.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace yaglom::compiler::cpu {

/// Replaces the tile program `function` by `func.func @name(%arguments: !llvm.ptr, %scratch: !llvm.ptr)`, which reads its
/// operands as compiler/Program.h states. Returns how many bytes of scratch it needs.
int64_t lowerTiles(mlir::func::FuncOp function, const Machine &machine);

} // namespace yaglom::compiler::cpu
