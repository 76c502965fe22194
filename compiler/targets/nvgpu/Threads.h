// What a thread of a block knows of itself, and how it meets the others: NVPTX intrinsics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace yaglom::compiler::nvgpu {

class Threads {
public:
  Threads(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}
  void setLocation(mlir::Location location) { loc = location; }

  /// Reads the numbers below, at the start of a kernel.
  void begin();
  mlir::Value block;         ///< i64
  mlir::Value thread;        ///< index, in the block
  mlir::Value warp, lane;    ///< index
  mlir::Value group, member; ///< index: lane / 4 and lane % 4, by which fragments are dealt

  /// Waits for all threads of the block, and makes what each wrote visible to all.
  void barrier();
  static bool isBarrier(mlir::Operation *op);
  /// The number that the lane `lane ^ distance` holds; 32 or 64 bits wide.
  mlir::Value exchange(mlir::Value value, int distance);
  /// Starts a copy of 16 bytes to shared memory, the first `size` (i32) of them from global memory, the rest zeros.
  void copyAsync(mlir::Value shared, mlir::Value global, mlir::Value size);
  void commitCopies();
  /// Waits for all copies that this thread has started.
  void waitForCopies();
  static bool isCopy(mlir::Operation *op);
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace yaglom::compiler::nvgpu
