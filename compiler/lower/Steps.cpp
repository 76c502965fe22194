// The steps of a tile program in order: control flow carries places instead of tensors.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/TileLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace yaglom::compiler {

void TileLowering::lowerBlock(Block &block, const Clusters &clusters) {
  for (auto constantOp : block.getOps<arith::ConstantOp>())
    b.clone(*constantOp, scalars);
  claimInserts(block, clusters);
  beginBlock(block, clusters);
  const Location outer = loc;
  for (const Item &item : clusters.items) {
    setLocation((item.isCluster() ? item.cluster.ops.front() : item.op)->getLoc());
    item.isCluster() ? lowerCluster(item.cluster) : lowerOp(item.op, clusters);
  }
  setLocation(outer);
}

void TileLowering::lowerOp(Operation *op, const Clusters &clusters) {
  if (auto load = dyn_cast<phi::LoadRowsOp>(op))
    return lowerLoad(load);
  if (auto store = dyn_cast<phi::StoreRowsOp>(op))
    return lowerStore(store);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return lowerFor(loop, clusters);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return lowerWhile(loop, clusters);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return lowerIf(branch, clusters);
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    Place place = placeOf(extract.getTensor());
    beginStep();
    scalars.map(extract.getResult(), memory.load(memory.address(place, {}), place.element));
    return;
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    Place whole = placeOf(insert.getResult()), target = placeOf(insert.getDest());
    if (!(whole == target) && !insert.getDest().getDefiningOp<tensor::EmptyOp>())
      copyPlace(target, whole);
    Place part = whole.part(insert.getStaticOffsets(), insert.getSourceType().getShape());
    if (Place from = placeOf(insert.getSource()); !(from == part))
      copyPlace(from, part);
    return;
  }
  if (auto store = dyn_cast<phi::StoreValueOp>(op))
    return storeTo(store.getValue(), placeOf(store.getTarget()));
  if (auto load = dyn_cast<phi::LoadItemOp>(op))
    return copyPlace(itemPlace(load.getSource(), load.getItem(), load.getType()), placeOf(load.getResult()));
  if (auto store = dyn_cast<phi::StoreItemOp>(op))
    return storeTo(store.getValue(), itemPlace(store.getTarget(), store.getItem(), store.getValue().getType()));
  if (auto state = dyn_cast<phi::StateInOp>(op))
    return lowerStateIn(state, clusters);
  if (auto state = dyn_cast<phi::StateOutOp>(op))
    return lowerStateOut(state);
  if (auto given = dyn_cast<phi::HasStateOp>(op))
    return scalars.map(given.getResult(), isGiven(stateIn));
  b.clone(*op, scalars); // an index, a condition, a number
}

/// Where a loop or branch carries a value: where its result is wanted, else where it already is, else a new place.
Place TileLowering::carriedPlace(Value init, Value result, Operation *op, const Clusters &clusters) {
  bool isEmpty = init.getDefiningOp<tensor::EmptyOp>();
  bool owned = !isEmpty && !splatOf(init) && isDeadAfter(init, op, clusters) &&
               !(isa<BlockArgument>(init) && isa<func::FuncOp>(init.getParentBlock()->getParentOp()));
  auto claimed = claims.find(result);
  Place place = claimed != claims.end() ? claimed->second
                : owned                 ? placeOf(init)
                                        : allocate(cast<RankedTensorType>(result.getType()), laneOf(result));
  places[result] = place;
  if (std::optional<double> number = splatOf(init))
    fillPlace(place, *number);
  else if (!isEmpty && !(placeOf(init) == place))
    copyPlace(placeOf(init), place);
  return place;
}

/// Moves what a body yields to where the next turn expects it.
void TileLowering::settle(ValueRange yields, llvm::ArrayRef<Place> carried) {
  llvm::SmallVector<std::pair<Place, Place>> moves;
  for (auto [value, place] : llvm::zip(yields, carried)) {
    if (splatOf(value)) {
      fillPlace(place, *splatOf(value));
      continue;
    }
    if (!(placeOf(value) == place))
      moves.push_back({placeOf(value), place});
  }
  // Values may trade places: then all are read before any is written.
  if (moves.size() > 1)
    for (auto &[from, to] : moves) {
      Place spare = allocate(RankedTensorType::get(from.sizes, from.element), from.lane);
      copyPlace(from, spare);
      from = spare;
    }
  for (auto &[from, to] : moves)
    copyPlace(from, to);
}

Value TileLowering::isGiven(Value address) {
  Value null = LLVM::ZeroOp::create(b, loc, address.getType());
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, address, null);
}

/// A tensor in the caller's memory, row by row.
Place TileLowering::rowMajor(Value address, RankedTensorType type, int64_t offset) {
  Place place{address, offset, type.getElementType(), {}, {}, unsigned(std::max<int64_t>(type.getRank() - 1, 0)),
              false};
  place.sizes.assign(type.getShape().begin(), type.getShape().end());
  place.strides.assign(type.getRank(), 1);
  for (int axis = type.getRank() - 2; axis >= 0; --axis)
    place.strides[axis] = place.strides[axis + 1] * type.getDimSize(axis + 1);
  return place;
}

void TileLowering::lowerStateIn(phi::StateInOp op, const Clusters &clusters) {
  Place place = carriedPlace(op.getInitial(), op.getResult(), op, clusters);
  auto branch = scf::IfOp::create(b, loc, isGiven(stateIn), false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  copyPlace(rowMajor(stateIn, cast<RankedTensorType>(op.getResult().getType()), op.getOffset()), place);
}

void TileLowering::lowerStateOut(phi::StateOutOp op) {
  Place place = placeOf(op.getValue());
  auto branch = scf::IfOp::create(b, loc, isGiven(stateOut), false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  copyPlace(place, rowMajor(stateOut, cast<RankedTensorType>(op.getValue().getType()), op.getOffset()));
}

static bool isTensor(Value value) { return isa<RankedTensorType>(value.getType()); }

void TileLowering::lowerFor(scf::ForOp op, const Clusters &clusters) {
  llvm::SmallVector<Place> carried;
  for (auto [init, argument, result] : llvm::zip(op.getInits(), op.getRegionIterArgs(), op.getResults())) {
    carried.push_back(carriedPlace(init, result, op, clusters));
    places[argument] = carried.back();
  }
  auto scalar = [&](Value x) { return scalars.lookup(x); };
  beginLoop(op);
  auto loop = scf::ForOp::create(b, loc, scalar(op.getLowerBound()), scalar(op.getUpperBound()), scalar(op.getStep()));
  scalars.map(op.getInductionVar(), loop.getInductionVar());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Clusters inner(*op.getBody(), sumsProducts());
  claimYields(op.getRegionIterArgs(), op.getYieldedValues(), carried, inner);
  beginTurn(op, carried);
  lowerBlock(*op.getBody(), inner);
  settle(op.getYieldedValues(), carried);
}

/// The first region of our loops only tests; tensors are carried by their places, the rest as values.
void TileLowering::lowerWhile(scf::WhileOp op, const Clusters &clusters) {
  llvm::SmallVector<Place> carried;
  llvm::SmallVector<Value> olds, yields, inits;
  llvm::SmallVector<Type> types;
  for (auto [i, init] : llvm::enumerate(op.getInits())) {
    if (!isTensor(init)) {
      inits.push_back(scalars.lookup(init));
      types.push_back(init.getType());
      continue;
    }
    carried.push_back(carriedPlace(init, op.getResult(i), op, clusters));
    places[op.getAfterArguments()[i]] = carried.back();
    places[op.getBeforeArguments()[i]] = carried.back();
    olds.push_back(op.getAfterArguments()[i]);
    yields.push_back(op.getYieldOp()->getOperand(i));
  }
  auto loop = scf::WhileOp::create(
      b, loc, types, inits,
      [&](OpBuilder &, Location, ValueRange args) {
        for (auto [i, argument] : llvm::enumerate(args))
          scalars.map(op.getBeforeArguments()[i], argument);
        for (Operation &test : op.getBeforeBody()->without_terminator())
          b.clone(test, scalars);
        scf::ConditionOp::create(b, loc, scalars.lookup(op.getConditionOp().getCondition()), args);
      },
      [&](OpBuilder &, Location, ValueRange args) {
        for (auto [i, argument] : llvm::enumerate(args))
          scalars.map(op.getAfterArguments()[i], argument);
        Clusters inner(*op.getAfterBody(), sumsProducts());
        claimYields(olds, yields, carried, inner);
        lowerBlock(*op.getAfterBody(), inner);
        settle(yields, carried);
        llvm::SmallVector<Value> next;
        for (Value value : op.getYieldOp()->getOperands())
          if (!isTensor(value))
            next.push_back(scalars.lookupOrDefault(value));
        scf::YieldOp::create(b, loc, next);
      });
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    scalars.map(op.getResult(i), result);
}

void TileLowering::lowerIf(scf::IfOp op, const Clusters &clusters) {
  llvm::SmallVector<Place> carried;
  ValueRange kept = op.elseYield()->getOperands();
  for (auto [old, result] : llvm::zip(kept, op.getResults()))
    carried.push_back(carriedPlace(old, result, op, clusters));
  auto branch = scf::IfOp::create(b, loc, scalars.lookupOrDefault(op.getCondition()), false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  Clusters inner(*op.thenBlock(), sumsProducts());
  claimYields(kept, op.thenYield()->getOperands(), carried, inner);
  lowerBlock(*op.thenBlock(), inner);
  settle(op.thenYield()->getOperands(), carried);
}

/// In 64 bits, however wide an index is.
Value TileLowering::rowAddress(const RowOperand &operand, Type element, Value row) {
  auto wide = [&](Value x) { return arith::IndexCastOp::create(b, loc, b.getI64Type(), x).getResult(); };
  return memory.move(operand.base, element, arith::MulIOp::create(b, loc, wide(row), wide(operand.stride)).getResult());
}

/// One of the tensors that an operand holds one after the other.
Place TileLowering::itemPlace(Value operand, Value item, RankedTensorType type) {
  Value address = rowAddress(rowOperands.find(operand)->second, type.getElementType(), scalars.lookupOrDefault(item));
  return rowMajor(address, type, 0);
}

void TileLowering::storeTo(Value value, const Place &target) {
  if (std::optional<double> number = splatOf(value))
    return fillPlace(target, *number);
  copyPlace(placeOf(value), target);
}

} // namespace yaglom::compiler
