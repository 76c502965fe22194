// Vectors and entries of places: loads and stores in the LLVM dialect, with masks where a place ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/Place.h"

#include <optional>

namespace yaglom::compiler {

/// value + constant: an index of which only one part may be known while compiling.
struct Index {
  mlir::Value value; ///< an `index`, or null
  int64_t constant = 0;

  Index operator+(int64_t more) const { return {value, constant + more}; }
};

class Memory {
public:
  Memory(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  /// Where what follows comes from.
  void setLocation(mlir::Location location) { loc = location; }

  /// The address of the entry at `indices`, one an axis.
  mlir::Value address(const Place &place, llvm::ArrayRef<Index> indices);
  /// `base` moved by `elements`.
  mlir::Value move(mlir::Value base, mlir::Type element, int64_t elements);
  mlir::Value move(mlir::Value base, mlir::Type element, mlir::Value elements);

  mlir::Value load(mlir::Value address, mlir::Type element);
  void store(mlir::Value value, mlir::Value address);
  /// A vector of `lanes` neighbours, of which the first `valid` exist; the others read as 0.
  mlir::Value loadVector(mlir::Value address, mlir::Type element, int64_t lanes, int64_t valid);
  /// Asks for the cache line at `address`, which need not exist.
  void prefetch(mlir::Value address);
  void storeVector(mlir::Value vector, mlir::Value address, int64_t valid);

private:
  mlir::Value prefixMask(int64_t lanes, int64_t valid);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace yaglom::compiler
