// What a scan computes with, whichever op it comes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialect/Phi.h"

namespace yaglom::compiler {

/// The rows of a scan and how they are combined. Of a reversed scan the queries stand in the place of the keys.
struct ScanOperands {
  mlir::Value q, k, v;
  mlir::Value scale, qExponent, kExponent, log2Decay, mask; ///< or null
  llvm::StringRef normalize;
  double threshold = 0;
  mlir::ArrayAttr state; ///< types of S, z, a
  mlir::Location loc;
  mlir::Value values, keyMask, keyLog2Decay; ///< of a reversed scan, the keys' v, mask and decay

  bool normalizes() const { return normalize != "none"; }
  mlir::Type element() const { return mlir::cast<mlir::RankedTensorType>(v.getType()).getElementType(); }

  template <typename Op> // phi.scan or phi.scan_grad_query
  static ScanOperands of(Op op) {
    return {op.getQ(),
            op.getK(),
            op.getV(),
            op.getScale(),
            op.getQExponent(),
            op.getKExponent(),
            op.getLog2Decay(),
            op.getMask(),
            op.getNormalize(),
            op.getThreshold().convertToDouble(),
            op.getState(),
            op.getLoc(),
            {},
            {},
            {}};
  }
  /// The queries as what is summed, from the last one on; their exponents are less b.
  static ScanOperands reversed(phi::ScanGradKeyOp op) {
    bool byFeature =
        op.getQExponent() && !mlir::cast<mlir::RankedTensorType>(op.getQExponent().getType()).getShape().empty();
    return {op.getK(),
            op.getQ(),
            op.getW(),
            {},
            op.getKExponent(),
            byFeature ? op.getQExponent() : mlir::Value(),
            {},
            {},
            op.getNormalize(),
            0,
            op.getState(),
            op.getLoc(),
            op.getV(),
            op.getMask(),
            op.getLog2Decay()};
  }
};

} // namespace yaglom::compiler
