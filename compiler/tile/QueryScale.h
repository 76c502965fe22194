// The query side of one linear attention: its features next to a state of some scale, and the last step to an output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Rows.h"
#include "compiler/tile/ScanOperands.h"

namespace yaglom::compiler {

/// With a the state's scale, the features of query i become q_i[f] 2^(a[f] - b_i): the largest is near 1. What is left
/// over, 2^b_i and factors of the row alone, is applied in finish().
class QueryScale {
public:
  QueryScale(const ScanOperands &scan, mlir::OpBuilder &body, Rows &queries);

  /// Builds the features for a state of maxima `a` ([], [F] or null). `whole` and `fraction` are the decay up to each
  /// query, in log2, or null.
  void scale(mlir::Value a, mlir::Value whole, mlir::Value fraction);
  /// [chunk, F]; after scale().
  mlir::Value features() const { return fq; }
  /// Outputs of the rows that start at `row`: O [rows, e] over the normaliser D [rows], by the op's `normalize`.
  mlir::Value finish(mlir::Value O, mlir::Value D, int64_t row);

  /// Gradients of the rows that start at `row`, as phi.scan_grad_query defines them.
  struct Gradients {
    mlir::Value w, w0, t, dscale;
  };
  /// From the gradient of the outputs, with N and D as in finish(). D is null without a normaliser; then so is w0.
  Gradients pullBack(mlir::Value grad, mlir::Value N, mlir::Value D, int64_t row);
  /// The gradient of the rows' mantissas from y, that of their features before scaling.
  mlir::Value pullBackFeatures(mlir::Value y, int64_t row);
  /// The same for a sum over their features.
  mlir::Value pullBackSum(mlir::Value sum, int64_t row);
  /// What multiplies the rows' features beside a whole power of 2, [rows], or null.
  mlir::Value partOf(int64_t row, int64_t rows) { return leftover ? rowOf(leftover, row, rows) : mlir::Value(); }
  /// b of phi.scan_grad_query, [chunk].
  mlir::Value baseOfRows();

private:
  mlir::Value denominator(mlir::Value D, int64_t row);
  mlir::Value inverse(mlir::Value D, mlir::Value d, int64_t row);
  mlir::Value clampedPart(mlir::Value D, mlir::Value d, int64_t row);
  mlir::Value boundOf(mlir::OpBuilder &in, mlir::Location at, mlir::Value down) const;
  void scaleByFeature(mlir::Value a);
  mlir::Value rowOf(mlir::Value x, int64_t row, int64_t rows);

  ScanOperands scan;
  mlir::OpBuilder &b;
  mlir::Location loc;
  int64_t chunk, count;
  mlir::Value q, exponent, factor; ///< [chunk, F]; [chunk] or [chunk, F] or null; [chunk] or null
  mlir::Value fq;
  mlir::Value weight;   ///< of each feature, where queries have an exponent for each: [chunk, F] or null
  mlir::Value base;     ///< what the features and the state are scaled by, whole: [chunk] or null
  mlir::Value shift;    ///< base, own exponents and decay, whole: [chunk] or null
  mlir::Value rest;     ///< the same exponents' fractions as a factor: [chunk] or null
  mlir::Value leftover; ///< rest times the row's own factor: [chunk] or null
};

} // namespace yaglom::compiler
