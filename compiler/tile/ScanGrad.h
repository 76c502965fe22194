// The two halves of the gradient of linear attention, chunk by chunk (architecture.md, decision 7).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Scan.h"

namespace yaglom::compiler {

/// Tiles of the results of phi.scan_grad_query, in its order, [chunk, ...] each.
struct QueryGradient {
  mlir::Value dq, dscale, t, w, w0, b, r;
  llvm::SmallVector<mlir::Value> values() const { return {dq, dscale, t, w, w0, b, r}; }
  static QueryGradient from(mlir::ValueRange v) { return {v[0], v[1], v[2], v[3], v[4], v[5], v[6]}; }
};

/// Tiles of the results of phi.scan_grad_key.
struct KeyGradient {
  mlir::Value dk, dv, c;
};

class QueryGradTiler : public ScanTiler {
public:
  QueryGradTiler(const ScanOperands &scan, mlir::OpBuilder &body, Rows &keys, const Schedule &schedule);
  /// One chunk of a causal scan, given the gradient of its output, [chunk, e]; advances the state.
  QueryGradient causalChunk(ScanState &state, Rows &queries, mlir::Value grad);
  /// One chunk of queries of a scan whose state holds all keys.
  static QueryGradient wholeChunk(const ScanOperands &scan, mlir::OpBuilder &body, const ScanState &state,
                                  Rows &queries, mlir::Value grad);

private:
  QueryGradient rows(const ScanState &state, mlir::Value fk, const Range &range, QueryScale &query, mlir::Value grad,
                     QueryGradient old);
};

/// The reversed scan: the state sums queries, and reads keys.
class KeyGradTiler : public ScanTiler {
public:
  /// `queries` are the rows that the state sums, with w, w0 and b of phi.scan_grad_query.
  KeyGradTiler(phi::ScanGradKeyOp op, mlir::OpBuilder &body, Rows &queries, const Schedule &schedule);
  /// One chunk of a causal scan, from the last one to the first; advances the state.
  KeyGradient causalChunk(ScanState &state, Rows &keys);
  /// Adds a chunk of queries to the state of a scan over both directions.
  void queryChunk(ScanState &state);
  /// One chunk of keys of a scan whose state holds all queries.
  static KeyGradient wholeChunk(phi::ScanGradKeyOp op, mlir::OpBuilder &body, const ScanState &state, Rows &keys);

private:
  std::pair<mlir::Value, mlir::Value> decay(ScanState &state, Rows &keys);
  KeyGradient rows(const ScanState &state, mlir::Value fq, const Range &range, QueryScale &key, mlir::Value values,
                   KeyGradient old);
  static KeyGradient withoutMasked(const ScanOperands &scan, mlir::OpBuilder &b, KeyGradient gradient, Rows &keys);
  void advance(ScanState &state, mlir::Value fq);
  mlir::Value w0;
};

/// One chunk of phi.scan_grad_decay, [chunk]; `total`, float64 and [], is the sum over later rows.
mlir::Value decayGradient(phi::ScanGradDecayOp op, mlir::OpBuilder &body, mlir::Value &total, Rows &queries,
                          Rows &keys);

} // namespace yaglom::compiler
