// phi-scan-to-tiles: the chunk loops, one over keys for what needs all of them first, one over queries.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/ScanToTiles.h"

#include "compiler/Passes.h"
#include "compiler/formula/Emit.h"
#include "compiler/tile/Rows.h"
#include "compiler/tile/Scan.h"
#include "compiler/tile/Softmax.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace yaglom::compiler {

#define GEN_PASS_DEF_SCANTOTILES
#include "compiler/Passes.h.inc"

namespace {

class TileBuilder {
public:
  TileBuilder(func::FuncOp formula, const Schedule &schedule)
      : formula(formula), schedule(schedule), loc(formula.getLoc()), b(formula), prologue(formula.getContext()) {}

  void buildForward();
  void buildAdvance();

private:
  void begin(llvm::StringRef name);
  void end();
  void makeFunction(llvm::StringRef name);
  ScanState stateIn(phi::ScanOp op);
  void stateOut(phi::ScanOp op, const ScanState &state);
  llvm::SmallVector<Value> initialStates(llvm::ArrayRef<phi::ScanOp> ops);
  Value validRows(Value first, Value count);
  void keyLoop(llvm::ArrayRef<phi::ScanOp> ops, Value first);
  void queryLoop();
  Value lowerAttention(Operation *op, Rows &queries, Rows &keys);

  func::FuncOp formula, program;
  Schedule schedule;
  Location loc;
  OpBuilder b;
  Prologue prologue;
  Operation *anchor = nullptr; ///< the prologue ends here
  Value rows, keyRows, position, beginRow;
  llvm::SmallVector<Value> results; ///< operands that the results are stored to
  llvm::SmallVector<phi::ScanOp> causal, both;
  llvm::DenseMap<Operation *, ScanState> states;
  llvm::DenseMap<Operation *, int64_t> offsets; ///< of each scan's state among all of them
};

/// The signature: sizes, then the formula's arguments with rows in front, then what is written.
void TileBuilder::makeFunction(llvm::StringRef name) {
  constexpr unsigned kSizes = 5;
  Type index = b.getIndexType();
  llvm::SmallVector<Type> types(kSizes, index);
  auto withRows = [](Type type) {
    llvm::SmallVector<int64_t> shape{ShapedType::kDynamic};
    llvm::append_range(shape, cast<RankedTensorType>(type).getShape());
    return RankedTensorType::get(shape, getElementTypeOrSelf(type));
  };
  for (BlockArgument argument : formula.getArguments())
    types.push_back(prologue.sides.perToken(argument) ? withRows(argument.getType()) : argument.getType());
  for (Type type : formula.getResultTypes())
    types.push_back(withRows(type));
  program = func::FuncOp::create(b, loc, name, b.getFunctionType(types, {}));
  program->setAttr(Schedule::kAttr, schedule.toAttr(b));
  Block *entry = program.addEntryBlock();
  rows = entry->getArgument(0);
  keyRows = entry->getArgument(1);
  position = entry->getArgument(2);
  prologue.length = entry->getArgument(3);
  beginRow = entry->getArgument(4);
  for (BlockArgument argument : formula.getArguments()) {
    prologue.tiles[argument] = entry->getArgument(kSizes + argument.getArgNumber());
    for (llvm::StringRef attr : {kNameAttr, kSideAttr})
      if (Attribute value = formula.getArgAttr(argument.getArgNumber(), attr))
        program.setArgAttr(kSizes + argument.getArgNumber(), attr, value);
  }
  results.assign(entry->args_end() - formula.getNumResults(), entry->args_end());
}

Value TileBuilder::validRows(Value first, Value count) {
  Value left = arith::SubIOp::create(b, loc, count, first);
  return arith::MinUIOp::create(b, loc, left, tile::index(b, loc, schedule.chunk));
}

/// The state before the first key of this part: the caller's, or none yet.
ScanState TileBuilder::stateIn(phi::ScanOp op) {
  ScanState initial = ScanState::initial(b, ScanOperands::of(op));
  llvm::SmallVector<Value> members;
  int64_t offset = offsets[op];
  for (Value member : initial.values()) {
    members.push_back(phi::StateInOp::create(b, loc, member.getType(), member, offset));
    offset += cast<RankedTensorType>(member.getType()).getNumElements();
  }
  return initial.with(members);
}

void TileBuilder::stateOut(phi::ScanOp op, const ScanState &state) {
  int64_t offset = offsets[op];
  for (Value member : state.values()) {
    phi::StateOutOp::create(b, loc, member, offset);
    offset += cast<RankedTensorType>(member.getType()).getNumElements();
  }
}

llvm::SmallVector<Value> TileBuilder::initialStates(llvm::ArrayRef<phi::ScanOp> ops) {
  llvm::SmallVector<Value> all;
  for (phi::ScanOp op : ops)
    llvm::append_range(all, (states[op] = stateIn(op)).values());
  return all;
}

/// The states of `ops` after all keys from `first` on.
void TileBuilder::keyLoop(llvm::ArrayRef<phi::ScanOp> ops, Value first) {
  llvm::SmallVector<Value> inits = initialStates(ops);
  auto loop = scf::ForOp::create(b, loc, first, keyRows, tile::index(b, loc, schedule.chunk), inits);
  b.setInsertionPointToStart(loop.getBody());
  Value row = loop.getInductionVar();
  Rows keys(prologue, b, schedule.chunk, row, validRows(row, keyRows), position);
  llvm::SmallVector<Value> yields;
  ValueRange carried = loop.getRegionIterArgs();
  for (phi::ScanOp op : ops) {
    ScanState state = states[op].with(carried.take_front(states[op].values().size()));
    carried = carried.drop_front(state.values().size());
    ScanTiler(ScanOperands::of(op), b, keys, schedule).keyChunk(state);
    llvm::append_range(yields, state.values());
  }
  scf::YieldOp::create(b, loc, yields);
  b.setInsertionPointAfter(loop);
  ValueRange final = loop.getResults();
  for (phi::ScanOp op : ops) {
    size_t size = states[op].values().size();
    states[op] = states[op].with(final.take_front(size));
    final = final.drop_front(size);
  }
}

Value TileBuilder::lowerAttention(Operation *op, Rows &queries, Rows &keys) {
  if (auto softmax = dyn_cast<phi::SoftmaxAttentionOp>(op))
    return softmaxChunk(softmax, b, queries, prologue, keyRows, position, schedule);
  auto scan = cast<phi::ScanOp>(op);
  if (!scan.isCausal())
    return ScanTiler::queryChunk(ScanOperands::of(scan), b, states[scan], queries);
  return ScanTiler(ScanOperands::of(scan), b, keys, schedule).causalChunk(states[scan], queries);
}

void TileBuilder::queryLoop() {
  llvm::SmallVector<Value> inits = initialStates(causal);
  auto loop = scf::ForOp::create(b, loc, beginRow, rows, tile::index(b, loc, schedule.chunk), inits);
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar(), valid = validRows(first, rows);
  // With `causal` both sides have the same length, so one chunk of each is in step.
  Rows queries(prologue, b, schedule.chunk, first, valid, position),
      keys(prologue, b, schedule.chunk, first, valid, position);
  queries.lowerAttention = [&](Operation *op) { return lowerAttention(op, queries, keys); };
  ValueRange carried = loop.getRegionIterArgs();
  for (phi::ScanOp op : causal) {
    size_t size = states[op].values().size();
    states[op] = states[op].with(carried.take_front(size));
    carried = carried.drop_front(size);
  }
  llvm::SmallVector<Value> yields;
  Operation *terminator = formula.getBody().front().getTerminator();
  llvm::SmallVector<Value> tiles;
  for (Value result : terminator->getOperands())
    tiles.push_back(queries.spread(result));
  for (auto [tile, target] : llvm::zip(tiles, results))
    phi::StoreRowsOp::create(b, loc, tile, target, first, valid);
  for (phi::ScanOp op : causal)
    llvm::append_range(yields, states[op].values());
  if (!inits.empty())
    scf::YieldOp::create(b, loc, yields);
  b.setInsertionPointAfter(loop);
  ValueRange final = loop.getResults();
  for (phi::ScanOp op : causal) {
    size_t size = states[op].values().size();
    states[op] = states[op].with(final.take_front(size));
    final = final.drop_front(size);
  }
}

void TileBuilder::begin(llvm::StringRef name) {
  makeFunction(name);
  b.setInsertionPointToStart(&program.getBody().front());
  anchor = arith::ConstantIndexOp::create(b, loc, 0);
  prologue.builder.setInsertionPoint(anchor);
  func::ReturnOp::create(b, loc);
  b.setInsertionPoint(program.getBody().front().getTerminator());
  int64_t offset = 0;
  formula.walk([&](phi::ScanOp op) {
    (op.isCausal() ? causal : both).push_back(op);
    offsets[op] = offset;
    offset += op.stateElements();
  });
}

void TileBuilder::end() {
  for (llvm::ArrayRef<phi::ScanOp> ops : {causal, both})
    for (phi::ScanOp op : ops)
      stateOut(op, states[op]);
  anchor->erase();
}

void TileBuilder::buildForward() {
  begin(formula.getName());
  if (!both.empty()) {
    // A state that is handed in holds all keys already.
    Value given = phi::HasStateOp::create(b, loc, b.getI1Type());
    keyLoop(both, arith::SelectOp::create(b, loc, given, keyRows, tile::index(b, loc, 0)));
  }
  queryLoop();
  end();
}

void TileBuilder::buildAdvance() {
  begin("advance");
  llvm::SmallVector<phi::ScanOp> all(causal);
  llvm::append_range(all, both);
  keyLoop(all, beginRow);
  end();
}

} // namespace

void buildTiles(func::FuncOp function, const Schedule &schedule) {
  bool hasState = false;
  function.walk([&](phi::ScanOp) { hasState = true; });
  if (hasState)
    TileBuilder(function, schedule).buildAdvance();
  TileBuilder(function, schedule).buildForward();
  function.erase();
}

namespace {

struct ScanToTilesPass : impl::ScanToTilesBase<ScanToTilesPass> {
  using ScanToTilesBase::ScanToTilesBase;
  void runOnOperation() override {
    for (func::FuncOp function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      (function->hasAttr(kGradientAttr) ? buildBackwardTiles
                                        : buildTiles)(function, {chunk, granule, function->hasAttr(kCompactAttr)});
  }
};

} // namespace

} // namespace yaglom::compiler
