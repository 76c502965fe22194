// Union-find over tile values; contractions vote.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/Lanes.h"

#include "dialect/Phi.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace yaglom::compiler::cpu {

static unsigned rankOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

Lanes::Lanes(func::FuncOp function) {
  function.walk([&](Operation *op) { connect(op); });
  auto note = [&](Value value) {
    Operation *parentOp = value.getParentBlock()->getParentOp();
    if (rankOf(value) >= 2 && !isa<func::FuncOp>(parentOp))
      inLoop[find(value)] = true;
  };
  function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      note(result);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          note(argument);
  });
  function.walk([&](linalg::ContractOp op) { vote(op); });
  function.walk([&](linalg::ContractOp op) {
    Value result = op->getResult(0);
    if (rankOf(result) == 2)
      axis.try_emplace(find(result), ofContraction(op));
  });
}

Value Lanes::find(Value value) {
  auto it = parent.find(value);
  if (it == parent.end() || it->second == value)
    return value;
  Value root = find(it->second);
  parent[value] = root;
  return root;
}

void Lanes::unite(Value x, Value y) {
  if (rankOf(x) < 2 || rankOf(x) != rankOf(y))
    return;
  Value a = find(x), c = find(y);
  if (a != c)
    parent[a] = c;
}

void Lanes::connect(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    for (auto [operand, map] : llvm::zip(generic.getInputs(), generic.getIndexingMapsArray()))
      if (map.isIdentity())
        unite(operand, generic.getResult(0));
  } else if (auto contract = dyn_cast<linalg::ContractOp>(op)) {
    unite(contract.getOutputs()[0], contract->getResult(0));
  } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    unite(slice.getSource(), slice.getResult());
  } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    unite(insert.getSource(), insert.getResult());
    unite(insert.getDest(), insert.getResult());
  } else if (auto state = dyn_cast<phi::StateInOp>(op)) {
    unite(state.getInitial(), state.getResult());
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [init, argument, yield, result] :
         llvm::zip(loop.getInits(), loop.getRegionIterArgs(), loop.getYieldedValues(), loop.getResults())) {
      unite(init, argument);
      unite(yield, argument);
      unite(result, argument);
    }
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    for (auto [init, argument, yield, result] :
         llvm::zip(loop.getInits(), loop.getAfterArguments(), loop.getYieldOp()->getOperands(), loop.getResults())) {
      unite(init, argument);
      unite(yield, argument);
      unite(result, argument);
    }
  } else if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch->getNumResults()) {
    for (auto [a, c, result] :
         llvm::zip(branch.thenYield()->getOperands(), branch.elseYield()->getOperands(), branch.getResults())) {
      unite(a, result);
      unite(c, result);
    }
  }
}

/// An operand that is summed over one axis and gives the result's last axis with the other wants the latter in the lanes:
/// values and states. What is computed once a head (weights) has no say: it is read entry by entry.
void Lanes::vote(linalg::ContractOp op) {
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineMap result = maps.back();
  if (result.getNumResults() != 2)
    return;
  unsigned last = result.getDimPosition(1);
  for (auto [operand, map] : llvm::zip(op.getInputs(), maps)) {
    if (rankOf(operand) != 2 || !inLoop.lookup(find(operand)))
      continue;
    if (map.getDimPosition(1) == last && !result.isFunctionOfDim(map.getDimPosition(0)))
      axis.try_emplace(find(operand), 1);
  }
}

unsigned Lanes::of(Value value) {
  if (rankOf(value) < 2)
    return 0;
  Value root = find(value);
  if (auto it = axis.find(root); it != axis.end())
    return it->second;
  return inLoop.lookup(root) ? 0 : rankOf(value) - 1;
}

unsigned Lanes::ofContraction(linalg::ContractOp op) {
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineMap result = maps.back();
  if (result.getNumResults() < 2)
    return 0;
  unsigned last = result.getDimPosition(1);
  for (auto [operand, map] : llvm::zip(op.getInputs(), maps))
    for (unsigned i = 0; i < map.getNumResults(); ++i)
      if (map.getDimPosition(i) == last)
        return inLoop.lookup(find(operand)) && of(operand) == i ? 1 : 0;
  return 0;
}

} // namespace yaglom::compiler::cpu
