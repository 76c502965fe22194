// Which memory each allocation of a block gets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/nvgpu/Device.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace yaglom::compiler::nvgpu {

struct Allocation {
  mlir::Value base; ///< stands for the address
  int64_t bytes;
  bool isShared; ///< must lie in shared memory
};
using Allocations = llvm::SmallVector<Allocation>;

/// Bytes that a block takes.
struct Room {
  int64_t sharedBytes = 0, scratchBytes = 0;
};

/// Removes the stores to allocations that nothing reads; gives each other one room in shared memory, or in the block's part of
/// the scratch memory at `scratch` where shared memory is full. Allocations that are never needed at the same time may share
/// room; steps begin at barriers. Allocations that must lie in shared memory and found no room are added to `homeless`.
Room placeAllocations(mlir::func::FuncOp code, const Allocations &allocations, mlir::Value scratch,
                      const Device &device, llvm::SmallVectorImpl<mlir::Value> &homeless);

} // namespace yaglom::compiler::nvgpu
