// Sides follow from the operands; attention turns query and key rows into query rows (T8).
// SPDX-License-Identifier: Apache-2.0
#include "compiler/formula/Sides.h"

#include "compiler/formula/Emit.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace yaglom::compiler {

Side Sides::of(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto side = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kSideAttr) : StringAttr();
    if (!side || side.getValue() == "none")
      return Side::None;
    return side.getValue() == "query" ? Side::Query : Side::Key;
  }
  if (auto it = known.find(value); it != known.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  Side side = Side::None;
  if (isa<phi::LinearOp, phi::ScanOp, phi::SoftmaxAttentionOp, phi::ScanGradQueryOp, phi::SoftmaxGradQueryOp>(op))
    side = Side::Query;
  else if (isa<phi::ScanGradKeyOp, phi::ScanGradDecayOp, phi::SoftmaxGradKeyOp>(op))
    side = Side::Key;
  else if (isa<phi::TokenSumOp>(op))
    side = Side::None;
  else
    for (Value operand : op->getOperands())
      if (Side s = of(operand); s != Side::None)
        side = s;
  return known[value] = side;
}

} // namespace yaglom::compiler
