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

  void run();

private:
  void makeFunction();
  Value validRows(Value first, Value count);
  void keyLoop();
  void queryLoop();
  Value lowerAttention(Operation *op, Rows &queries, Rows &keys);

  func::FuncOp formula, program;
  Schedule schedule;
  Location loc;
  OpBuilder b;
  Prologue prologue;
  Value rows, keyRows, position;
  llvm::SmallVector<Value> results; ///< operands that the results are stored to
  llvm::SmallVector<phi::ScanOp> causal, both;
  llvm::DenseMap<Operation *, ScanState> states;
};

/// The signature: sizes, then the formula's arguments with rows in front, then what is written.
void TileBuilder::makeFunction() {
  Type index = b.getIndexType();
  llvm::SmallVector<Type> types(4, index);
  auto withRows = [](Type type) {
    llvm::SmallVector<int64_t> shape{ShapedType::kDynamic};
    llvm::append_range(shape, cast<RankedTensorType>(type).getShape());
    return RankedTensorType::get(shape, getElementTypeOrSelf(type));
  };
  for (BlockArgument argument : formula.getArguments())
    types.push_back(prologue.sides.perToken(argument) ? withRows(argument.getType()) : argument.getType());
  for (Type type : formula.getResultTypes())
    types.push_back(withRows(type));
  program = func::FuncOp::create(b, loc, formula.getName(), b.getFunctionType(types, {}));
  program->setAttr(Schedule::kAttr, schedule.toAttr(b));
  Block *entry = program.addEntryBlock();
  rows = entry->getArgument(0);
  keyRows = entry->getArgument(1);
  position = entry->getArgument(2);
  prologue.length = entry->getArgument(3);
  for (BlockArgument argument : formula.getArguments()) {
    prologue.tiles[argument] = entry->getArgument(4 + argument.getArgNumber());
    for (llvm::StringRef attr : {kNameAttr, kSideAttr})
      if (Attribute value = formula.getArgAttr(argument.getArgNumber(), attr))
        program.setArgAttr(4 + argument.getArgNumber(), attr, value);
  }
  results.assign(entry->args_end() - formula.getNumResults(), entry->args_end());
}

Value TileBuilder::validRows(Value first, Value count) {
  Value left = arith::SubIOp::create(b, loc, count, first);
  return arith::MinUIOp::create(b, loc, left, tile::index(b, loc, schedule.chunk));
}

/// States of scans over both directions: every key before the first query.
void TileBuilder::keyLoop() {
  llvm::SmallVector<Value> inits;
  for (phi::ScanOp op : both)
    llvm::append_range(inits, (states[op] = ScanState::initial(b, op)).values());
  auto loop = scf::ForOp::create(b, loc, tile::index(b, loc, 0), keyRows, tile::index(b, loc, schedule.chunk), inits);
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  Rows keys(prologue, b, schedule.chunk, first, validRows(first, keyRows), position);
  llvm::SmallVector<Value> yields;
  ValueRange carried = loop.getRegionIterArgs();
  for (phi::ScanOp op : both) {
    ScanState state = states[op].with(carried.take_front(states[op].values().size()));
    carried = carried.drop_front(state.values().size());
    ScanTiler(op, b, keys, schedule).keyChunk(state);
    llvm::append_range(yields, state.values());
  }
  scf::YieldOp::create(b, loc, yields);
  b.setInsertionPointAfter(loop);
  ValueRange final = loop.getResults();
  for (phi::ScanOp op : both) {
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
    return ScanTiler::queryChunk(scan, b, states[scan], queries);
  return ScanTiler(scan, b, keys, schedule).causalChunk(states[scan], queries);
}

void TileBuilder::queryLoop() {
  llvm::SmallVector<Value> inits;
  for (phi::ScanOp op : causal)
    llvm::append_range(inits, (states[op] = ScanState::initial(b, op)).values());
  auto loop = scf::ForOp::create(b, loc, tile::index(b, loc, 0), rows, tile::index(b, loc, schedule.chunk), inits);
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar(), valid = validRows(first, rows);
  // With `causal` both sides have the same length, so one chunk of each is in step.
  Rows queries(prologue, b, schedule.chunk, first, valid, position), keys(prologue, b, schedule.chunk, first, valid, position);
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
}

void TileBuilder::run() {
  makeFunction();
  b.setInsertionPointToStart(&program.getBody().front());
  auto anchor = arith::ConstantIndexOp::create(b, loc, 0);
  prologue.builder.setInsertionPoint(anchor);
  func::ReturnOp::create(b, loc);
  b.setInsertionPoint(program.getBody().front().getTerminator());
  formula.walk([&](phi::ScanOp op) { (op.isCausal() ? causal : both).push_back(op); });
  if (!both.empty())
    keyLoop();
  queryLoop();
  anchor->erase();
  formula.erase();
}

} // namespace

void buildTiles(func::FuncOp function, const Schedule &schedule) { TileBuilder(function, schedule).run(); }

namespace {

struct ScanToTilesPass : impl::ScanToTilesBase<ScanToTilesPass> {
  using ScanToTilesBase::ScanToTilesBase;
  void runOnOperation() override {
    for (func::FuncOp function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      buildTiles(function, {chunk, granule});
  }
};

} // namespace

} // namespace yaglom::compiler
