// Clusters without contractions: entries are dealt to threads; sums run along a warp.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/ExpandMath.h"
#include "compiler/targets/nvgpu/GpuLowering.h"

#include <numeric>

using namespace mlir;

namespace yaglom::compiler::nvgpu {

/// Operands and results exist before the step begins: making a place may be a step of its own.
void GpuLowering::makePlaces(const Cluster &cluster) {
  for (Operation *op : cluster.ops) {
    auto linalgOp = cast<linalg::LinalgOp>(op);
    bool reads = isa<linalg::ContractOp>(op);
    for (OpOperand *input : linalgOp.getDpsInputOperands())
      if (Operation *maker = input->get().getDefiningOp(); !(maker && cluster.contains(maker)))
        if (reads || !splatOf(input->get()))
          placeOf(input->get());
    if (auto contract = dyn_cast<linalg::ContractOp>(op))
      if (Value init = accumulatorOf(contract); init && !(init.getDefiningOp() && cluster.contains(init.getDefiningOp())))
        placeOf(init);
    if (isa<linalg::ReduceOp>(op) || cluster.isStored(op->getResult(0)))
      placeOf(op->getResult(0));
  }
}

void GpuLowering::lowerCluster(const Cluster &cluster) {
  makePlaces(cluster);
  beginStep();
  if (!cluster.contractions().empty()) {
    bool matrices = cluster.extents.size() == 2 &&
                    llvm::all_of(cluster.contractions(), [&](linalg::ContractOp op) { return matricesOf(op).has_value(); });
    return matrices ? emitMatrices(cluster) : emitDots(cluster);
  }
  if (cluster.reduced >= 0)
    return emitReductions(cluster);
  overEntries(cluster.extents, [&](At at) {
    Values values;
    emitBody(cluster, at, values);
    storeResults(cluster, at, values);
  });
}

llvm::SmallVector<Value> GpuLowering::unflatten(Value entry, llvm::ArrayRef<int64_t> extents) {
  llvm::SmallVector<Value> at(extents.size());
  for (int axis = int(extents.size()) - 1; axis > 0; --axis) {
    at[axis] = arith::RemUIOp::create(b, loc, entry, constant(extents[axis]));
    entry = arith::DivUIOp::create(b, loc, entry, constant(extents[axis]));
  }
  if (!at.empty())
    at[0] = entry;
  return at;
}

/// Neighbouring threads take neighbouring entries.
void GpuLowering::overEntries(llvm::ArrayRef<int64_t> extents, llvm::function_ref<void(At)> body) {
  int64_t total = std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
  auto loop = scf::ForOp::create(b, loc, threads.thread, constant(total), constant(device.threads));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(unflatten(loop.getInductionVar(), extents));
}

Value GpuLowering::read(Value tensor, AffineMap map, At at) {
  Type element = getElementTypeOrSelf(tensor);
  if (std::optional<double> number = splatOf(tensor))
    return arith::ConstantOp::create(b, loc, FloatAttr::get(element, *number));
  llvm::SmallVector<Value> indices;
  for (unsigned i = 0; i < map.getNumResults(); ++i)
    indices.push_back(at[map.getDimPosition(i)]);
  return load(placeOf(tensor), indices);
}

Value GpuLowering::emitGeneric(linalg::GenericOp op, At at, const Values &values) {
  IRMapping inside = scalars;
  Block *body = op.getBody();
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value known = values.lookup(input);
    inside.map(body->getArgument(i), known ? known : read(input, maps[i], at));
  }
  for (Operation &inner : body->without_terminator()) {
    Value result = inner.getResult(0);
    auto operand = [&](unsigned i) { return inside.lookupOrDefault(inner.getOperand(i)); };
    if (auto index = dyn_cast<linalg::IndexOp>(inner))
      inside.map(result, at[index.getDim()]);
    else if (isa<phi::Exp2ScaledOp>(inner))
      inside.map(result, emitExp2Scaled(b, loc, operand(0), operand(1)));
    else if (isa<phi::LdexpOp>(inner))
      inside.map(result, emitLdexp(b, loc, operand(0), operand(1)));
    else
      b.clone(inner, inside);
  }
  return inside.lookupOrDefault(body->getTerminator()->getOperand(0));
}

void GpuLowering::emitBody(const Cluster &cluster, At at, Values &values) {
  for (Operation *op : cluster.ops)
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      values[generic.getResult(0)] = emitGeneric(generic, at, values);
}

void GpuLowering::storeResults(const Cluster &cluster, At at, const Values &values) {
  for (Operation *op : cluster.ops)
    if (Value result = op->getResult(0); !isa<linalg::ReduceOp>(op) && cluster.isStored(result))
      store(values.lookup(result), placeOf(result), at);
}

static bool isSum(linalg::ReduceOp op) { return isa<arith::AddFOp>(op.getCombiner().front().front()); }

/// A running maximum is a number from the start and passes over NaN.
Value GpuLowering::combine(linalg::ReduceOp op, Value running, Value next) {
  if (isSum(op))
    return arith::AddFOp::create(b, loc, running, next);
  Value larger = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, next, running);
  return arith::SelectOp::create(b, loc, larger, next, running);
}

Value GpuLowering::neutral(linalg::ReduceOp op) {
  return arith::ConstantOp::create(
      b, loc, FloatAttr::get(getElementTypeOrSelf(op->getResult(0)), splatOf(op.getInits()[0]).value()));
}

/// The same value in every lane, combined in pairs, then pairs of pairs.
Value GpuLowering::acrossWarp(Value value, llvm::function_ref<Value(Value, Value)> combine) {
  for (int distance = Device::kWarp / 2; distance; distance /= 2)
    value = combine(value, threads.exchange(value, distance));
  return value;
}

void GpuLowering::ifFirstLane(llvm::function_ref<void()> body) {
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, threads.lane, constant(0));
  auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  body();
}

/// A warp for each entry of the result; its lanes go along the axis that is summed.
void GpuLowering::emitReductions(const Cluster &cluster) {
  llvm::SmallVector<int64_t> outer;
  for (auto [dim, extent] : llvm::enumerate(cluster.extents))
    if (int(dim) != cluster.reduced)
      outer.push_back(extent);
  int64_t total = std::accumulate(outer.begin(), outer.end(), int64_t(1), std::multiplies<>());
  llvm::SmallVector<linalg::ReduceOp> sums;
  llvm::SmallVector<Value> starts;
  for (Operation *op : cluster.ops)
    if (auto reduce = dyn_cast<linalg::ReduceOp>(op)) {
      sums.push_back(reduce);
      starts.push_back(neutral(reduce));
    }
  auto items = scf::ForOp::create(b, loc, threads.warp, constant(total), constant(device.warps()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(items.getBody());
  llvm::SmallVector<Value> place = unflatten(items.getInductionVar(), outer);
  auto along = scf::ForOp::create(b, loc, threads.lane, constant(cluster.extents[cluster.reduced]),
                                  constant(Device::kWarp), starts);
  {
    OpBuilder::InsertionGuard inside(b);
    b.setInsertionPointToStart(along.getBody());
    llvm::SmallVector<Value> at(place);
    at.insert(at.begin() + cluster.reduced, along.getInductionVar());
    Values values;
    emitBody(cluster, at, values);
    storeResults(cluster, at, values);
    llvm::SmallVector<Value> next;
    AffineMap identity = b.getMultiDimIdentityMap(cluster.extents.size());
    for (auto [op, running] : llvm::zip(sums, along.getRegionIterArgs())) {
      Value input = op.getInputs()[0], known = values.lookup(input);
      next.push_back(combine(op, running, known ? known : read(input, identity, at)));
    }
    scf::YieldOp::create(b, loc, next);
  }
  llvm::SmallVector<Value> totals;
  for (auto [op, partial] : llvm::zip(sums, along.getResults()))
    totals.push_back(acrossWarp(partial, [&](Value x, Value y) { return combine(op, x, y); }));
  ifFirstLane([&] {
    for (auto [op, sum] : llvm::zip(sums, totals))
      store(sum, placeOf(op->getResult(0)), place);
  });
}

} // namespace yaglom::compiler::nvgpu
