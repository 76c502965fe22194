// Where a tile lives while a program runs: an address, strides, and the axis along the lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Builders.h"

namespace yaglom::compiler {

struct Place {
  mlir::Value base;   ///< !llvm.ptr
  int64_t offset = 0; ///< of entry 0 from base, in elements
  mlir::Type element;
  llvm::SmallVector<int64_t, 3> sizes;   ///< one an axis of the tensor
  llvm::SmallVector<int64_t, 3> strides; ///< in elements
  unsigned lane = 0;                     ///< the axis with stride 1
  bool padded = true;                    ///< whole vectors may be read and written where the lane axis ends

  bool operator==(const Place &other) const {
    return base == other.base && offset == other.offset && strides == other.strides && sizes == other.sizes;
  }
  /// The part at these offsets with the shape `shape`, which may lack size-1 axes at the end.
  Place part(llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> shape) const {
    // A part may be read past its end, but what lies there belongs to another unless the part ends with a whole vector.
    constexpr int64_t kWidestVector = 16;
    Place p = *this;
    if (lane < shape.size() && shape[lane] != sizes[lane] && shape[lane] % kWidestVector)
      p.padded = false;
    for (size_t i = 0; i < offsets.size(); ++i)
      p.offset += offsets[i] * strides[i];
    p.sizes.assign(shape.begin(), shape.end());
    p.strides.resize(shape.size());
    if (p.lane >= shape.size())
      p.lane = 0;
    return p;
  }
  /// Entries along the lanes lie side by side.
  bool isDense(unsigned axis) const { return axis < strides.size() && strides[axis] == 1; }
};

} // namespace yaglom::compiler
