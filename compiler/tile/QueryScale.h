// The query side of one linear attention: its features next to a state of some scale, and the last step to an output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Rows.h"

namespace yaglom::compiler {

/// With a the state's scale, the features of query i become q_i[f] 2^(a[f] - b_i): the largest is near 1. What is left
/// over, 2^b_i and factors of the row alone, is applied in finish().
class QueryScale {
public:
  QueryScale(phi::ScanOp op, mlir::OpBuilder &body, Rows &queries);

  /// Builds the features for a state of maxima `a` ([], [F] or null). `whole` and `fraction` are the decay up to each
  /// query, in log2, or null.
  void scale(mlir::Value a, mlir::Value whole, mlir::Value fraction);
  /// [chunk, F]; after scale().
  mlir::Value features() const { return fq; }
  /// Outputs of the rows that start at `row`: O [rows, e] over the normaliser D [rows], by the op's `normalize`.
  mlir::Value finish(mlir::Value O, mlir::Value D, int64_t row);

private:
  void scaleByFeature(mlir::Value a);
  mlir::Value rowOf(mlir::Value x, int64_t row, int64_t rows);

  phi::ScanOp op;
  mlir::OpBuilder &b;
  mlir::Location loc;
  int64_t chunk, count;
  mlir::Value q, exponent, factor; ///< [chunk, F]; [chunk] or [chunk, F] or null; [chunk] or null
  mlir::Value fq;
  mlir::Value shift;    ///< b_i, whole: [chunk] or null
  mlir::Value leftover; ///< what multiplies O_i and D_i: [chunk] or null
};

} // namespace yaglom::compiler
