// Which values change from token to token: what decides between once a head and once a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace yaglom::compiler {

/// The side of each value of a function at the formula or scan level, by the `phi.side` of its arguments.
class Sides {
public:
  Side of(mlir::Value value);
  bool perToken(mlir::Value value) { return of(value) != Side::None; }

private:
  llvm::DenseMap<mlir::Value, Side> known;
};

} // namespace yaglom::compiler
