// Constructors and options of our passes, generated from Passes.td.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialect/Phi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace yaglom::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/Passes.h.inc"

} // namespace yaglom::compiler
