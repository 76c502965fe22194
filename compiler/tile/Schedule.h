// How a tile program is cut: what the tuner may change without changing a result's meaning.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <cstdint>

namespace yaglom::compiler {

/// Stands for the exponent (in log2) of "nothing yet": whole, and small enough that sums with whole numbers are exact. Below
/// it a number of this type has no digit left that exp2 would see. The running maxima start here and never fall below.
inline double lowExponent(mlir::Type element) { return element.isF32() ? -0x1p23 : -0x1p51; }
/// What a forgetting step (decay 0) subtracts, in log2: more than any two exponents may differ by.
inline constexpr double kForget = 32768.0;

struct Schedule {
  static constexpr llvm::StringLiteral kAttr = "phi.schedule";
  int64_t chunk = 32;   ///< tokens handled together
  int64_t granule = 16; ///< rows of a chunk that skip the same keys above the diagonal; divides the chunk
  bool compact = false; ///< short code before fast code: for what runs at most once a launch

  /// The keys' exponents of one chunk may rise by this much (log2) before its rows are computed in several ranges:
  /// products of two scaled features and the state stay clear of the subnormal numbers.
  static double range(mlir::Type element) { return element.isF32() ? 64 : 900; }

  mlir::DictionaryAttr toAttr(mlir::Builder &b) const {
    return b.getDictionaryAttr({b.getNamedAttr("chunk", b.getI64IntegerAttr(chunk)),
                                b.getNamedAttr("granule", b.getI64IntegerAttr(granule)),
                                b.getNamedAttr("compact", b.getBoolAttr(compact))});
  }
  static Schedule fromAttr(mlir::DictionaryAttr attr) {
    Schedule schedule;
    if (auto chunk = attr ? attr.getAs<mlir::IntegerAttr>("chunk") : mlir::IntegerAttr())
      schedule.chunk = chunk.getInt();
    if (auto granule = attr ? attr.getAs<mlir::IntegerAttr>("granule") : mlir::IntegerAttr())
      schedule.granule = granule.getInt();
    if (auto compact = attr ? attr.getAs<mlir::BoolAttr>("compact") : mlir::BoolAttr())
      schedule.compact = compact.getValue();
    return schedule;
  }
};

} // namespace yaglom::compiler
