// Greedy grouping in program order. An op joins the cluster that makes its last operand, if it meets it entry by entry.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/Clusters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace yaglom::compiler {

static llvm::ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

llvm::SmallVector<linalg::ContractOp> Cluster::contractions() const {
  llvm::SmallVector<linalg::ContractOp> all;
  for (Operation *op : ops)
    if (auto contract = dyn_cast<linalg::ContractOp>(op))
      all.push_back(contract);
  return all;
}

llvm::SmallVector<int64_t> extentsOf(Operation *op) {
  Value shaped = isa<linalg::ReduceOp>(op) ? op->getOperand(0) : op->getResult(0);
  return llvm::SmallVector<int64_t>(shapeOf(shaped));
}

Value accumulatorOf(linalg::ContractOp op) {
  Value init = op.getOutputs()[0];
  if (auto fill = init.getDefiningOp<linalg::FillOp>())
    if (auto constant = fill.getInputs()[0].getDefiningOp<arith::ConstantOp>())
      if (cast<FloatAttr>(constant.getValue()).getValue().isPosZero())
        return {};
  return init;
}

static bool isCompute(Operation *op) { return isa<linalg::GenericOp, linalg::ContractOp, linalg::ReduceOp>(op); }

/// What must exist before `op` runs: operands that are read, and values its body captures.
static llvm::SmallVector<Value> needs(Operation *op) {
  llvm::SmallVector<Value> values;
  if (auto contract = dyn_cast<linalg::ContractOp>(op)) {
    llvm::append_range(values, contract.getInputs());
    if (Value init = accumulatorOf(contract))
      values.push_back(init);
    return values;
  }
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    for (OpOperand *input : linalgOp.getDpsInputOperands())
      values.push_back(input->get());
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    llvm::append_range(values, captured);
    return values;
  }
  llvm::append_range(values, op->getOperands());
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  llvm::append_range(values, captured);
  return values;
}

Clusters::Clusters(Block &block, bool sumsProducts) : block(block), sumsProducts(sumsProducts) {
  for (Operation &op : block.without_terminator())
    add(&op);
}

int Clusters::indexOf(Value value) const {
  auto it = made.find(value);
  return it == made.end() ? -1 : it->second;
}

int Clusters::indexOfUser(Operation *user) const {
  Operation *ancestor = block.findAncestorOpInBlock(*user);
  if (!ancestor || ancestor == block.getTerminator())
    return items.size();
  auto it = step.find(ancestor);
  return it == step.end() ? -1 : it->second;
}

void Clusters::put(Operation *op, int index) {
  for (Value result : op->getResults())
    made[result] = index;
  step[op] = index;
}

void Clusters::add(Operation *op) {
  int last = -1;
  for (Value value : needs(op))
    last = std::max(last, indexOf(value));
  // Views and constants do nothing by themselves.
  if (isa<tensor::ExtractSliceOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::EmptyOp, linalg::FillOp,
          arith::ConstantOp>(op))
    return put(op, last);
  if (isCompute(op))
    return addToCluster(op);
  items.push_back({op, {}});
  put(op, items.size() - 1);
}

/// Whether `op` can run in the registers of the cluster at `index`, which makes the last of its operands.
bool Clusters::joins(Operation *op, int index) const {
  if (index < 0 || !items[index].isCluster() || items[index].cluster.extents != extentsOf(op))
    return false;
  const Cluster &cluster = items[index].cluster;
  if (auto contract = dyn_cast<linalg::ContractOp>(op)) {
    // A second product into the same accumulator.
    Value init = accumulatorOf(contract);
    if (!init || !init.hasOneUse() || !init.getDefiningOp<linalg::ContractOp>() || indexOf(init) != index)
      return false;
    return llvm::all_of(contract.getInputs(), [&](Value v) { return indexOf(v) < index; });
  }
  auto linalgOp = cast<linalg::LinalgOp>(op);
  for (OpOperand *input : linalgOp.getDpsInputOperands()) {
    Value value = input->get();
    if (indexOf(value) != index)
      continue;
    Operation *maker = value.getDefiningOp();
    bool direct = maker && cluster.contains(maker) && !isa<linalg::ReduceOp>(maker);
    if (!direct || !linalgOp.getMatchingIndexingMap(input).isIdentity())
      return false;
  }
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    return (sumsProducts || cluster.contractions().empty()) &&
           (cluster.reduced < 0 || cluster.reduced == int(reduce.getDimensions()[0]));
  return true;
}

/// A cluster after `after` whose first contraction has the same sums and shares an operand, or -1.
int Clusters::sibling(linalg::ContractOp op, int after) const {
  for (int i = int(items.size()) - 1; i > after; --i) {
    if (!items[i].isCluster() || items[i].cluster.extents != extentsOf(op))
      continue;
    llvm::SmallVector<linalg::ContractOp> others = items[i].cluster.contractions();
    if (others.empty() || others.size() > 2 || accumulatorOf(op))
      continue;
    linalg::ContractOp first = others[0];
    bool plain = llvm::none_of(others, [](linalg::ContractOp other) { return bool(accumulatorOf(other)); });
    if (plain && first.getInputs()[0] == op.getInputs()[0] && first.getIndexingMaps() == op.getIndexingMaps() &&
        first.getInputs()[1].getType() == op.getInputs()[1].getType())
      return i;
  }
  return -1;
}

void Clusters::addToCluster(Operation *op) {
  int last = -1;
  for (Value value : needs(op))
    last = std::max(last, indexOf(value));
  int index = joins(op, last) ? last : -1;
  if (auto contract = dyn_cast<linalg::ContractOp>(op); contract && index < 0)
    index = sibling(contract, last);
  if (index < 0) {
    items.emplace_back();
    items.back().cluster.extents = extentsOf(op);
    index = items.size() - 1;
  }
  Cluster &cluster = items[index].cluster;
  cluster.ops.push_back(op);
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    cluster.reduced = reduce.getDimensions()[0];
  put(op, index);
}

} // namespace yaglom::compiler
