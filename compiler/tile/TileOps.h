// Short forms of the upstream ops that a tile program is made of: each result is a fresh tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialect/Scalar.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace yaglom::compiler::tile {

/// Dimensions of the iteration space that an operand's axes run along, in the order of its axes.
using Axes = llvm::SmallVector<unsigned, 3>;

struct Operand {
  mlir::Value value;
  Axes axes;
};

using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

/// A pointwise linalg.generic over `shape`; the body sees one scalar an operand and returns the entry.
mlir::Value pointwise(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<Operand> operands, Body body);

/// The same, with the entries as formulas.
mlir::Value map(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Operand> operands,
                llvm::function_ref<mlir::Value(llvm::ArrayRef<phi::Scalar>)> body);

/// The entry of a rank-0 tensor.
mlir::Value scalar(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

/// sum over the axes that `result` lacks of lhs * rhs, added to `init` (zeros when null).
mlir::Value contract(mlir::OpBuilder &b, mlir::Location loc, Operand lhs, Operand rhs, Axes result,
                     mlir::Value init = {});

enum class Reduction { Sum, Max, MaxExponent };
/// Sum or largest entry along `axis`. The maximum passes over NaN; that of nothing is -infinity, of exponents lowExponent().
mlir::Value reduce(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, unsigned axis, Reduction kind);

/// The part of `x` with these offsets and sizes.
mlir::Value slice(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> offsets,
                  llvm::ArrayRef<int64_t> sizes);
/// `x` as the part of `target` at these offsets; a missing last axis has size 1 there.
mlir::Value insert(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value target,
                   llvm::ArrayRef<int64_t> offsets);

/// The axes of x in their order.
Axes allAxes(mlir::Value x);

/// An i1: whether an entry of x, with one or two axes, is not finite. Then a product with 0 would not be 0.
mlir::Value holdsNonFinite(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
/// x [rows, ...] with 0 in every row i for which `i which bound` does not hold.
mlir::Value onlyRows(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::arith::CmpIPredicate which,
                     mlir::Value bound);
/// `whole` with the rows from `row` on taken from `now`, where `i which bound` holds for the row's number i, else from
/// `old`, which is as large as `whole`.
mlir::Value insertRows(mlir::OpBuilder &b, mlir::Location loc, mlir::Value now, mlir::Value old, mlir::Value whole,
                       int64_t row, mlir::arith::CmpIPredicate which, mlir::Value bound);

mlir::Value empty(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> shape, mlir::Type element);
mlir::Value filled(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> shape, mlir::Type element,
                   double number);
mlir::Value index(mlir::OpBuilder &b, mlir::Location loc, int64_t number);
/// A float constant of this element type.
mlir::Value number(mlir::OpBuilder &b, mlir::Location loc, mlir::Type element, double x);

llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
mlir::Type elementOf(mlir::Value value);

} // namespace yaglom::compiler::tile
