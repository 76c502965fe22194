// The chunk loops of a gradient: over queries from the first token to the last, then over keys from the last to the first.
// KeptStates.cpp has the one sweep that does for both when states were kept.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/BackwardToTiles.h"

#include "compiler/formula/Emit.h"
#include "compiler/tile/ScanGrad.h"
#include "compiler/tile/Softmax.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace yaglom::compiler {

using tile::Axes;

ScanOperands operandsOf(Operation *op) {
  if (auto scan = dyn_cast<phi::ScanOp>(op))
    return ScanOperands::of(scan);
  if (auto half = dyn_cast<phi::ScanGradQueryOp>(op))
    return ScanOperands::of(half);
  return ScanOperands::reversed(cast<phi::ScanGradKeyOp>(op));
}

/// Sizes; the formula's arguments with rows in front; a gradient for each that is asked; rows between the loops.
void BackwardBuilder::makeFunction() {
  constexpr unsigned kSizes = 5;
  llvm::SmallVector<Type> types(kSizes, b.getIndexType());
  auto withRows = [](Type type) -> Type {
    llvm::SmallVector<int64_t> shape{ShapedType::kDynamic};
    llvm::append_range(shape, cast<RankedTensorType>(type).getShape());
    return RankedTensorType::get(shape, getElementTypeOrSelf(type));
  };
  auto operandType = [&](Value argument) {
    return prologue.sides.perToken(argument) ? withRows(argument.getType()) : argument.getType();
  };
  for (BlockArgument argument : formula.getArguments())
    types.push_back(operandType(argument));
  inputs = formula->getAttrOfType<IntegerAttr>(kGradientAttr).getInt();
  for (BlockArgument argument : formula.getArguments().take_front(inputs))
    types.push_back(operandType(argument));
  llvm::SmallVector<Value> crossing = rowsBetweenLoops(formula);
  for (Value value : crossing)
    types.push_back(withRows(value.getType()));
  for (int copy = 0; copy < 2; ++copy)
    for (const KeptMember &member : keptStates(formula))
      types.push_back(withRows(member.type));

  program = func::FuncOp::create(b, loc, formula.getName(), b.getFunctionType(types, {}));
  program->setAttr(Schedule::kAttr, schedule.toAttr(b));
  Block *entry = program.addEntryBlock();
  rows = entry->getArgument(0);
  keyRows = entry->getArgument(1);
  position = entry->getArgument(2);
  prologue.length = entry->getArgument(3);
  segmentRows = entry->getArgument(4);
  unsigned next = kSizes;
  for (BlockArgument argument : formula.getArguments())
    prologue.tiles[argument] = entry->getArgument(next++);
  for (Value result : formula.getBody().front().getTerminator()->getOperands())
    results.push_back({result, entry->getArgument(next++)});
  for (Value value : crossing)
    between[value] = entry->getArgument(next++);
  keepOperands(llvm::to_vector_of<Value>(entry->getArguments().drop_front(next)));
  b.setInsertionPointToStart(entry);
  anchor = arith::ConstantIndexOp::create(b, loc, 0);
  prologue.builder.setInsertionPoint(anchor);
  func::ReturnOp::create(b, loc);
  b.setInsertionPoint(entry->getTerminator());
}

void BackwardBuilder::collect() {
  formula.walk([&](Operation *op) {
    if (auto scan = dyn_cast<phi::ScanOp>(op))
      scans.push_back({op, scan.isCausal(), {}});
    else if (auto half = dyn_cast<phi::ScanGradQueryOp>(op))
      queryHalves.push_back({op, half.getDirection() == "causal", {}});
    else if (auto half = dyn_cast<phi::ScanGradKeyOp>(op))
      keyHalves.push_back({op, half.getDirection() == "causal", {}});
    else if (isa<phi::ScanGradDecayOp>(op))
      decays.push_back({op, true, {tile::filled(b, loc, {}, b.getF64Type(), 0), {}, {}}});
    else if (auto sum = dyn_cast<phi::TokenSumOp>(op))
      (prologue.sides.of(sum.getX()) == Side::Key ? keySums : querySums).push_back(sum);
  });
  for (auto *ops : {&scans, &queryHalves, &keyHalves})
    for (Stateful &each : *ops)
      each.state = ScanState::initial(b, operandsOf(each.op));
}

void BackwardBuilder::findMask() {
  llvm::SetVector<Value> masks;
  formula.walk([&](Operation *op) {
    if (auto half = dyn_cast<phi::ScanGradKeyOp>(op))
      masks.insert(half.getMask());
    else if (auto half = dyn_cast<phi::SoftmaxGradKeyOp>(op))
      masks.insert(half.getMask());
  });
  if (masks.size() == 1)
    keyMask = masks.front();
}

/// Derivatives at a masked key may be NaN, which a gradient of 0 does not undo.
void BackwardBuilder::leaveOut(Rows &keys) {
  if (keyMask)
    keys.mask = keys.spread(keyMask);
}

Value BackwardBuilder::validRows(Value first, Value count) {
  Value left = arith::SubIOp::create(b, loc, count, first);
  return arith::MinUIOp::create(b, loc, left, tile::index(b, loc, schedule.chunk));
}

Stateful *BackwardBuilder::find(Operation *op) {
  for (auto *ops : {&scans, &queryHalves, &keyHalves, &decays})
    for (Stateful &each : *ops)
      if (each.op == op)
        return &each;
  return nullptr;
}

/// A loop over chunks of `count` rows that carries states and sums over tokens. The body takes the first row of a chunk,
/// works on the states, and gives each sum's part.
void BackwardBuilder::loop(Value count, llvm::ArrayRef<Stateful *> carried, llvm::ArrayRef<phi::TokenSumOp> sums,
                           Body body) {
  llvm::SmallVector<Value> inits;
  for (Stateful *each : carried)
    llvm::append_range(inits, each->state.values());
  for (phi::TokenSumOp sum : sums)
    inits.push_back(tile::filled(b, loc, tile::shapeOf(sum.getResult()), tile::elementOf(sum.getResult()), 0));
  auto op = scf::ForOp::create(b, loc, tile::index(b, loc, 0), count, tile::index(b, loc, schedule.chunk), inits);
  auto take = [&](ValueRange values) {
    for (Stateful *each : carried) {
      size_t size = each->state.values().size();
      each->state = each->state.with(values.take_front(size));
      values = values.drop_front(size);
    }
    return values;
  };
  b.setInsertionPointToStart(op.getBody());
  ValueRange totals = take(op.getRegionIterArgs());
  llvm::SmallVector<Value> parts = body(op.getInductionVar()), yields;
  for (Stateful *each : carried)
    llvm::append_range(yields, each->state.values());
  for (auto [total, part] : llvm::zip(totals, parts)) {
    Axes axes = tile::allAxes(total);
    yields.push_back(tile::map(b, loc, tile::shapeOf(total), {{total, axes}, {part, axes}},
                               [](llvm::ArrayRef<phi::Scalar> e) { return e[0] + e[1]; }));
  }
  if (!yields.empty())
    scf::YieldOp::create(b, loc, yields);
  b.setInsertionPointAfter(op);
  totals = take(op.getResults());
  for (auto [i, total] : llvm::enumerate(totals)) {
    phi::TokenSumOp sum = sums[i];
    epilogue.tiles[sum.getResult()] = total;
  }
}

llvm::SmallVector<Stateful *> BackwardBuilder::those(llvm::MutableArrayRef<Stateful> ops, bool causal) {
  llvm::SmallVector<Stateful *> chosen;
  for (Stateful &each : ops)
    if (each.isCausal == causal)
      chosen.push_back(&each);
  return chosen;
}

/// The states of scans in both directions, which queries see whole.
void BackwardBuilder::keyLoop() {
  llvm::SmallVector<Stateful *> ops = those(scans, false);
  llvm::append_range(ops, those(queryHalves, false));
  if (ops.empty())
    return;
  if (takesStates == "last")
    return loadStates([](const KeptScan &scan) { return ValueRange(scan.states); }, tile::index(b, loc, 0));
  loop(keyRows, ops, {}, [&](Value first) -> llvm::SmallVector<Value> {
    Rows keys(prologue, b, schedule.chunk, first, validRows(first, keyRows), position);
    for (Stateful *each : ops)
      ScanTiler(operandsOf(each->op), b, keys, schedule).keyChunk(each->state);
    return {};
  });
}

Value BackwardBuilder::lowerQueryOp(Operation *op, Rows &queries, Rows &keys) {
  if (auto softmax = dyn_cast<phi::SoftmaxAttentionOp>(op))
    return softmaxChunk(softmax, b, queries, prologue, keyRows, position, schedule);
  if (auto half = dyn_cast<phi::SoftmaxGradQueryOp>(op)) {
    for (auto [result, tile] :
         llvm::zip(op->getResults(), softmaxGradQueryChunk(half, b, queries, prologue, keyRows, position, schedule)))
      queries.set(result, tile);
    return {};
  }
  Stateful &each = *find(op);
  ScanOperands operands = operandsOf(op);
  if (isa<phi::ScanOp>(op))
    return each.isCausal ? ScanTiler(operands, b, keys, schedule).causalChunk(each.state, queries)
                         : ScanTiler::queryChunk(operands, b, each.state, queries);
  Value grad = queries.spread(cast<phi::ScanGradQueryOp>(op).getGrad());
  QueryGradient gradient = each.isCausal
                               ? QueryGradTiler(operands, b, keys, schedule).causalChunk(each.state, queries, grad)
                               : QueryGradTiler::wholeChunk(operands, b, each.state, queries, grad);
  for (auto [result, tile] : llvm::zip(op->getResults(), gradient.values()))
    queries.set(result, tile);
  return {};
}

void BackwardBuilder::queryLoop() {
  llvm::SmallVector<Stateful *> carried = those(scans, true), sums = those(keyHalves, false);
  llvm::append_range(carried, those(queryHalves, true));
  llvm::append_range(carried, sums);
  loop(rows, carried, querySums, [&](Value first) {
    // With `causal` both sides have the same length, so one chunk of each is in step.
    Value valid = validRows(first, rows);
    Rows queries(prologue, b, schedule.chunk, first, valid, position),
        keys(prologue, b, schedule.chunk, first, valid, position);
    queries.lowerAttention = [&](Operation *op) { return lowerQueryOp(op, queries, keys); };
    for (auto [value, target] : between)
      phi::StoreRowsOp::create(b, loc, queries.spread(value), target, first, valid);
    for (Stateful *half : sums)
      KeyGradTiler(cast<phi::ScanGradKeyOp>(half->op), b, queries, schedule).queryChunk(half->state);
    storeRows(Side::Query, queries);
    llvm::SmallVector<Value> parts;
    for (phi::TokenSumOp sum : querySums)
      parts.push_back(queries.tokenSum(sum));
    return parts;
  });
}

Value BackwardBuilder::lowerKeyOp(Operation *op, Rows &queries, Rows &keys) {
  Stateful &each = *find(op);
  if (auto decay = dyn_cast<phi::ScanGradDecayOp>(op))
    return decayGradient(decay, b, each.state.S, queries, keys);
  auto half = cast<phi::ScanGradKeyOp>(op);
  KeyGradient gradient = each.isCausal ? KeyGradTiler(half, b, queries, schedule).causalChunk(each.state, keys)
                                       : KeyGradTiler::wholeChunk(half, b, each.state, keys);
  keys.set(half.getDk(), gradient.dk);
  keys.set(half.getDv(), gradient.dv);
  keys.set(half.getC(), gradient.c);
  return {};
}

/// The gradients of one side's rows.
void BackwardBuilder::storeRows(Side side, Rows &rowsOfSide) {
  for (auto [value, target] : results)
    if (prologue.sides.of(value) == side)
      phi::StoreRowsOp::create(b, loc,
                               rowsOfSide.mask ? rowsOfSide.masked(rowsOfSide.spread(value)) : rowsOfSide.spread(value),
                               target, rowsOfSide.first, rowsOfSide.valid);
}

/// A state that nobody read advances all the same.
void BackwardBuilder::readAll(llvm::ArrayRef<Stateful *> carried, Rows &keys) {
  for (Stateful *each : carried)
    keys.spread(each->op->getResult(0));
}

/// The first row of the chunk that begins `turn` rows before the last one.
Value BackwardBuilder::reversed(Value turn) {
  Value chunk = tile::index(b, loc, schedule.chunk);
  Value whole = arith::MulIOp::create(b, loc, arith::CeilDivUIOp::create(b, loc, keyRows, chunk), chunk);
  return arith::SubIOp::create(b, loc, arith::SubIOp::create(b, loc, whole, chunk), turn);
}

void BackwardBuilder::reverseLoop() {
  llvm::SmallVector<Stateful *> carried = those(keyHalves, true);
  llvm::append_range(carried, those(decays, true));
  loop(keyRows, carried, keySums, [&](Value turn) {
    Value first = reversed(turn), valid = validRows(first, keyRows);
    Rows queries(prologue, b, schedule.chunk, first, valid, position),
        keys(prologue, b, schedule.chunk, first, valid, position);
    auto lend = [&](Rows &to) {
      for (auto [value, source] : between) {
        llvm::SmallVector<int64_t> shape{to.chunk};
        llvm::append_range(shape, tile::shapeOf(value));
        auto type = RankedTensorType::get(shape, tile::elementOf(value));
        to.set(value, phi::LoadRowsOp::create(b, loc, type, source, to.first, to.valid));
      }
    };
    lend(queries);
    leaveOut(keys);
    keys.lowerAttention = [&](Operation *op) -> Value {
      auto half = dyn_cast<phi::SoftmaxGradKeyOp>(op);
      if (!half)
        return lowerKeyOp(op, queries, keys);
      for (auto [result, tile] :
           llvm::zip(op->getResults(), softmaxGradKeyChunk(half, b, keys, prologue, rows, position, lend, schedule)))
        keys.set(result, tile);
      return {};
    };
    storeRows(Side::Key, keys);
    llvm::SmallVector<Value> parts;
    for (phi::TokenSumOp sum : keySums)
      parts.push_back(keys.tokenSum(sum));
    readAll(carried, keys);
    return parts;
  });
}

/// Gradients without a side: formulas over the sums.
void BackwardBuilder::storeValues() {
  for (auto [row, tile] : prologue.tiles)
    epilogue.tiles.try_emplace(row, tile);
  epilogue.length = prologue.length;
  epilogue.builder.setInsertionPoint(b.getInsertionBlock(), b.getInsertionPoint());
  Rows none(epilogue, epilogue.builder, schedule.chunk, {}, {}, position);
  for (auto [i, result] : llvm::enumerate(results)) {
    Value argument = formula.getArgument(i);
    if (prologue.sides.perToken(argument))
      continue;
    phi::StoreValueOp::create(epilogue.builder, loc, none.tile(result.first), result.second);
  }
}

void BackwardBuilder::build() {
  makeFunction();
  collect();
  findMask();
  if (takesStates == "segments") {
    sweep();
  } else {
    keyLoop();
    queryLoop();
    reverseLoop();
  }
  storeValues();
  anchor->erase();
  // The sweep reads states and advances none.
  IRRewriter rewriter(b.getContext());
  (void)runRegionDCE(rewriter, program->getRegions());
}

/// Whether the first loop alone can make a row: it comes from an attention.
static bool comesFromAttention(Value row) {
  Operation *op = row.getDefiningOp();
  if (!op)
    return false;
  return isa<phi::ScanOp, phi::SoftmaxAttentionOp, phi::ScanGradQueryOp, phi::SoftmaxGradQueryOp>(op) ||
         llvm::any_of(op->getOperands(), comesFromAttention);
}

llvm::SmallVector<Value> rowsBetweenLoops(func::FuncOp function) {
  llvm::SetVector<Value> rows;
  if (takenStates(function) == "segments")
    return {};
  function.walk([&](Operation *op) {
    if (auto half = dyn_cast<phi::ScanGradKeyOp>(op))
      for (Value row : {half.getW(), half.getW0(), half.getB()})
        rows.insert(row);
    else if (auto half = dyn_cast<phi::SoftmaxGradKeyOp>(op))
      for (Value row : {half.getQ(), half.getGrad(), half.getLse(), half.getDelta()}) {
        if (comesFromAttention(row))
          rows.insert(row);
      }
    else if (auto decay = dyn_cast<phi::ScanGradDecayOp>(op))
      rows.insert(decay.getR());
  });
  return rows.takeVector();
}

void buildBackwardTiles(func::FuncOp function, const Schedule &schedule) {
  BackwardBuilder(function, schedule).build();
  function.erase();
}

} // namespace yaglom::compiler
