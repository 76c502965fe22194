// Fragments of matrix products as a warp holds them, and the instructions that multiply them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/nvgpu/Threads.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace yaglom::compiler::nvgpu {

/// How products are computed. Sums are float32, of Exact float64.
enum class Products {
  Exact,  ///< fused multiply-adds
  Float,  ///< float32 as the sum of two tf32 numbers: three products on tensor cores, error about 2^-21
  Tf32,   ///< one product of tf32 numbers: range of float32, ten bits of fraction
  Half,   ///< float16
  BFloat, ///< bfloat16
};

/// A warp computes blocks of 16 x 8 entries. A thread of group g (of 8) and member t (of 4) has entries (g, 2t), (g, 2t + 1),
/// (g + 8, 2t) and (g + 8, 2t + 1) of each (PTX ISA, "Matrix Fragments for mma.m16n8k8", "... mma.m16n8k16").
class Fragments {
public:
  Fragments(mlir::OpBuilder &b, mlir::Location loc, Threads &threads, Products products)
      : b(b), loc(loc), threads(threads), products(products) {}

  /// Products of one step.
  int64_t depth() const;
  bool isHalf() const { return products == Products::Half || products == Products::BFloat; }

  struct Operand {
    llvm::SmallVector<mlir::Value> high, low; ///< low: of Products::Float
  };
  /// Reads the entry at a distance from the tile's first: row of the left side or column of the right one, and product.
  using Read = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  Operand left(Read read);
  Operand right(Read read);
  /// 16-bit numbers in shared memory, `x4` blocks of 8 x 8 by their rows' addresses, one a lane (ldmatrix).
  llvm::SmallVector<mlir::Value> loadBlocks(mlir::Value address, bool transposed);
  /// An operand of registers that loadBlocks() gave.
  static Operand packed(llvm::ArrayRef<mlir::Value> registers) { return {llvm::to_vector(registers), {}}; }

  /// sums + left right, the four entries of one block.
  void multiply(const Operand &left, const Operand &right, llvm::MutableArrayRef<mlir::Value> sums);
  /// A float32 in the products' 16-bit type.
  mlir::Value rounded(mlir::Value x);

private:
  Operand make(llvm::ArrayRef<std::pair<mlir::Value, mlir::Value>> at, Read read);
  void issue(llvm::StringRef name, llvm::ArrayRef<mlir::Value> left, llvm::ArrayRef<mlir::Value> right,
             llvm::MutableArrayRef<mlir::Value> sums);
  mlir::Value bits(uint32_t x);
  mlir::Value plus(mlir::Value x, int64_t more);

  mlir::OpBuilder &b;
  mlir::Location loc;
  Threads &threads;
  Products products;
};

} // namespace yaglom::compiler::nvgpu
