// A gradient from the states that a forward launch kept: one sweep from the last token to the first.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/formula/Emit.h"
#include "compiler/tile/BackwardToTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace yaglom::compiler {

llvm::StringRef takenStates(func::FuncOp function) {
  auto attr = function->getAttrOfType<StringAttr>(kTakesStatesAttr);
  return attr ? attr.getValue() : llvm::StringRef();
}

/// The scans whose states are read, each once, in the order of their operands.
static llvm::MapVector<int64_t, Operation *> keptScans(func::FuncOp function) {
  llvm::MapVector<int64_t, Operation *> scans;
  llvm::StringRef takes = takenStates(function);
  function.walk([&](Operation *op) {
    bool causal = false;
    if (auto scan = dyn_cast<phi::ScanOp>(op))
      causal = scan.isCausal();
    else if (auto half = dyn_cast<phi::ScanGradQueryOp>(op))
      causal = half.getDirection() == "causal";
    else
      return;
    if (takes == (causal ? "segments" : "last"))
      scans.try_emplace(op->getAttrOfType<IntegerAttr>(kStateOffsetAttr).getInt(), op);
  });
  return scans;
}

void BackwardBuilder::keepOperands(llvm::ArrayRef<Value> operands) {
  takesStates = takenStates(formula);
  llvm::ArrayRef<Value> states = operands.take_front(operands.size() / 2),
                        segments = operands.drop_front(states.size());
  for (auto [offset, op] : keptScans(formula)) {
    ScanOperands scan = operandsOf(op);
    size_t members = scan.state.size();
    kept.insert(
        {offset, {scan, llvm::to_vector(states.take_front(members)), llvm::to_vector(segments.take_front(members))}});
    states = states.drop_front(members);
    segments = segments.drop_front(members);
  }
}

/// Every op that reads a kept scan's state starts from item `item` of an operand for each member.
void BackwardBuilder::loadStates(llvm::function_ref<ValueRange(const KeptScan &)> from, Value item) {
  for (auto &[offset, scan] : kept) {
    ScanState like = ScanState::initial(b, scan.scan);
    llvm::SmallVector<Value> members;
    for (auto [member, operand] : llvm::zip(like.values(), from(scan)))
      members.push_back(phi::LoadItemOp::create(b, loc, member.getType(), operand, item));
    for (auto *ops : {&scans, &queryHalves})
      for (Stateful &each : *ops)
        if (each.op->getAttrOfType<IntegerAttr>(kStateOffsetAttr).getInt() == offset)
          each.state = like.with(members);
  }
}

/// The states before each chunk of the segment, from the kept one before its first.
void BackwardBuilder::refill(Value segment, Value begin, Value end) {
  llvm::SmallVector<ScanState> states;
  llvm::SmallVector<Value> inits;
  auto store = [&](Value item) {
    for (auto [entry, state] : llvm::zip(kept, states))
      for (auto [member, operand] : llvm::zip(state.values(), entry.second.segment))
        phi::StoreItemOp::create(b, loc, member, operand, item);
  };
  for (auto &[offset, scan] : kept) {
    ScanState like = ScanState::initial(b, scan.scan);
    llvm::SmallVector<Value> members;
    for (auto [member, operand] : llvm::zip(like.values(), scan.states))
      members.push_back(phi::LoadItemOp::create(b, loc, member.getType(), operand, segment));
    states.push_back(like.with(members));
    llvm::append_range(inits, members);
  }
  store(tile::index(b, loc, 0));
  Value chunk = tile::index(b, loc, schedule.chunk);
  Value last = arith::SubIOp::create(b, loc, end, chunk);
  auto loop = scf::ForOp::create(b, loc, begin, last, chunk, inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  Rows keys(prologue, b, schedule.chunk, first, validRows(first, keyRows), position);
  ValueRange carried = loop.getRegionIterArgs();
  llvm::SmallVector<Value> yields;
  for (auto [entry, state] : llvm::zip(kept, states)) {
    size_t members = state.values().size();
    state = state.with(carried.take_front(members));
    carried = carried.drop_front(members);
    ScanTiler(entry.second.scan, b, keys, schedule).keyChunk(state);
    llvm::append_range(yields, state.values());
  }
  Value item = arith::DivUIOp::create(b, loc, arith::SubIOp::create(b, loc, first, begin), chunk);
  store(arith::AddIOp::create(b, loc, item, tile::index(b, loc, 1)));
  scf::YieldOp::create(b, loc, yields);
}

/// From kept states: what queries need is there when the sweep comes to a chunk, and what keys need comes with it.
void BackwardBuilder::sweep() {
  llvm::SmallVector<Stateful *> carried = those(keyHalves, true);
  llvm::append_range(carried, those(decays, true));
  llvm::SmallVector<phi::TokenSumOp> sums(querySums);
  llvm::append_range(sums, keySums);
  Value chunk = tile::index(b, loc, schedule.chunk);
  Value end = arith::AddIOp::create(b, loc, reversed(tile::index(b, loc, 0)), chunk);
  loop(rows, carried, sums, [&](Value turn) {
    Value first = reversed(turn), valid = validRows(first, rows);
    Value segment = arith::DivUIOp::create(b, loc, first, segmentRows);
    Value begin = arith::MulIOp::create(b, loc, segment, segmentRows);
    Value segmentEnd = arith::MinUIOp::create(b, loc, end, arith::AddIOp::create(b, loc, begin, segmentRows));
    Value isLast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, arith::AddIOp::create(b, loc, first, chunk),
                                         segmentEnd);
    auto branch = scf::IfOp::create(b, loc, isLast, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.thenYield());
      refill(segment, begin, segmentEnd);
    }
    loadStates([](const KeptScan &scan) { return ValueRange(scan.segment); },
               arith::DivUIOp::create(b, loc, arith::SubIOp::create(b, loc, first, begin), chunk));
    Rows queries(prologue, b, schedule.chunk, first, valid, position),
        keys(prologue, b, schedule.chunk, first, valid, position);
    queries.lowerAttention = [&](Operation *op) {
      Value tile = lowerQueryOp(op, queries, keys);
      // What the last chunk lacks must not count: whatever a formula makes of rows of zeros, 0 / 0 perhaps.
      if (auto half = dyn_cast<phi::ScanGradQueryOp>(op))
        for (Value row : {half.getW(), half.getW0(), half.getB()})
          queries.set(row, tile::onlyRows(b, loc, queries.spread(row), arith::CmpIPredicate::ult, valid));
      return tile;
    };
    leaveOut(keys);
    keys.lowerAttention = [&](Operation *op) { return lowerKeyOp(op, queries, keys); };
    storeRows(Side::Query, queries);
    storeRows(Side::Key, keys);
    llvm::SmallVector<Value> parts;
    for (phi::TokenSumOp sum : querySums)
      parts.push_back(queries.tokenSum(sum));
    for (phi::TokenSumOp sum : keySums)
      parts.push_back(keys.tokenSum(sum));
    readAll(carried, keys);
    return parts;
  });
}

llvm::SmallVector<KeptMember> keptStates(func::FuncOp function) {
  llvm::SmallVector<KeptMember> members;
  for (auto [offset, op] : keptScans(function)) {
    int64_t at = offset;
    for (Attribute member : operandsOf(op).state) {
      members.push_back({at, cast<RankedTensorType>(cast<TypeAttr>(member).getValue())});
      at += members.back().type.getNumElements();
    }
  }
  return members;
}

} // namespace yaglom::compiler
