// The tiles of one linear attention: features scaled by running maxima, the causal triangle, the state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/QueryScale.h"
#include "compiler/tile/Rows.h"
#include "compiler/tile/ScanOperands.h"
#include "compiler/tile/Schedule.h"

namespace yaglom::compiler {

/// What a chunk loop carries for one phi.scan. `a` is null when no exponents are tracked, `z` when nothing normalises.
struct ScanState {
  mlir::Value S; ///< [F, e], scaled by 2^-floor(a)
  mlir::Value z; ///< [F], likewise
  mlir::Value a; ///< [F] or []: running maxima of the keys' exponents in log2, not rounded

  static ScanState initial(mlir::OpBuilder &b, const ScanOperands &scan);
  llvm::SmallVector<mlir::Value> values() const;
  /// The same members, taken from a list that values() made.
  ScanState with(mlir::ValueRange values) const;
};

class ScanTiler {
public:
  ScanTiler(const ScanOperands &scan, mlir::OpBuilder &body, Rows &keys, const Schedule &schedule);

  /// One chunk of keys and queries of a causal scan: returns the result's tile and advances the state.
  mlir::Value causalChunk(ScanState &state, Rows &queries);
  /// One chunk of keys of a scan over both directions.
  void keyChunk(ScanState &state);
  /// One chunk of queries of a scan whose state holds all keys.
  static mlir::Value queryChunk(const ScanOperands &scan, mlir::OpBuilder &body, const ScanState &state, Rows &queries);

protected:
  /// Rows `from` .. to - 1 are computed together, with the keys before `to` and the maxima `a`. Reversed: with what is summed
  /// from `from` on.
  struct Range {
    mlir::Value from, to; ///< indices
    mlir::Value a;        ///< null when no exponents are tracked
  };

  mlir::Value takesPart(mlir::OpBuilder &in, mlir::Location at, mlir::Value maskEntry) const;
  void maskValues();
  void buildDecay();
  void buildExponents();
  mlir::Value largestExponent(mlir::Value bound);
  mlir::Value largest(mlir::Value x, mlir::Value y);
  mlir::Value scaledKeys(mlir::Value a);
  mlir::Value holdsNonFiniteRows();
  mlir::Value exceeds(mlir::Value x, mlir::Value y);
  Range nextRange(mlir::Value from, const ScanState &state, mlir::Value nonFinite, mlir::Value most);
  /// What `compute` gives for a range of rows, from the state and the features at the range's scale and what earlier
  /// ranges gave. The results, tiles of the chunk like those of `empty`, take the place of the latter.
  using OfRange = llvm::function_ref<llvm::SmallVector<mlir::Value>(const ScanState &, mlir::Value, const Range &,
                                                                    mlir::ValueRange)>;
  std::pair<llvm::SmallVector<mlir::Value>, mlir::Value> overRanges(ScanState &state, mlir::Value nonFinite,
                                                                    llvm::ArrayRef<mlir::Value> empty, OfRange compute);
  ScanState rescale(const ScanState &state, mlir::Value a);
  mlir::Value triangle(const ScanState &state, mlir::Value fk, const Range &range, QueryScale &query, mlir::Value old);
  mlir::Value decayMaxima(ScanState &state);
  void advance(ScanState &state, mlir::Value fk);

  ScanOperands scan;
  mlir::OpBuilder &b;
  mlir::Location loc;
  Schedule schedule;
  mlir::Type element;
  int64_t chunk, features, width;
  mlir::Value valid;
  mlir::Value k, v, mask, steps; ///< [chunk, F], [chunk, e]; [chunk] or null
  mlir::Value exponent;          ///< of the keys, less the fraction of the decay: [chunk], [chunk, F] or null
  double mostRise;               ///< of exponents within one range, in log2
  bool isReversed = false;       ///< what is summed lies after what reads it
  bool byFeature = false;        ///< exponent is [chunk, F] and a is [F]
  mlir::Value whole, fraction;   ///< L_j, log2 of the chunk's decay up to and with j, in two parts: [chunk] or null
  mlir::Value lastWhole, lastFraction; ///< of the whole chunk: [1] or null
};

} // namespace yaglom::compiler
