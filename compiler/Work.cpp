// Counts contractions of the scan level by the side that repeats them.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Work.h"

#include "compiler/formula/Emit.h"
#include "compiler/formula/Sides.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace yaglom::compiler {

static double entries(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

Work countWork(ModuleOp module, const Schedule &schedule) {
  Work work;
  Sides sides;
  auto forward = module.lookupSymbol<func::FuncOp>(kForward);
  forward.walk([&](phi::MatVecOp op) {
    Side side = sides.of(op.getResult());
    (side == Side::Query ? work.perQuery : work.perKey) += side == Side::None ? 0 : entries(op.getMatrix());
  });
  forward.walk([&](phi::ScanOp op) {
    double features = entries(op.getK()), width = entries(op.getV());
    work.perQuery += features * width;
    work.perKey += features * width;
    if (op.isCausal())
      work.perQuery += (schedule.chunk + 1) / 2.0 * (features + width);
  });
  forward.walk([&](phi::SoftmaxAttentionOp op) {
    work.perPair += (entries(op.getK()) + entries(op.getV())) * (op.getCausal() ? 0.5 : 1);
  });
  return work;
}

} // namespace yaglom::compiler
