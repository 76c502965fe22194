// Two buffers for the rows that a loop reads: while a turn computes from one, copies into the other are under way.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/GpuLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

/// Whether a number of a loop's body follows from the loop's counter and what is known outside.
static bool followsCounter(Value value, scf::ForOp loop) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != loop.getBody())
    return value == loop.getInductionVar() || !loop.getBodyRegion().isAncestor(value.getParentRegion());
  return isa<arith::ArithDialect>(op->getDialect()) &&
         llvm::all_of(op->getOperands(), [&](Value x) { return followsCounter(x, loop); });
}

/// Rows in whole vectors whose numbers are known a turn ahead, and that the loop itself does not write.
bool GpuLowering::isFetched(phi::LoadRowsOp load, scf::ForOp loop) {
  auto type = cast<RankedTensorType>(load.getType());
  const int64_t bytes = stored.lookup(load.getSource()).getIntOrFloatBitWidth() / 8;
  if (type.getRank() != 2 || type.getDimSize(1) * bytes % kVectorBytes || claims.contains(load.getResult()))
    return false;
  bool isWritten = llvm::any_of(load.getSource().getUsers(),
                                [&](Operation *user) { return !isa<phi::LoadRowsOp>(user) && loop->isAncestor(user); });
  return !isWritten && followsCounter(load.getFirst(), loop) && followsCounter(load.getValid(), loop);
}

/// Buffers in the layout that products read: of the tile itself, or of its 16-bit numbers. Nothing where there was no room.
std::optional<GpuLowering::Stage> GpuLowering::stageFor(phi::LoadRowsOp load) {
  const size_t number = made++;
  if (device.stages < 2 || withoutCopy->contains(number))
    return std::nullopt;
  auto type = cast<RankedTensorType>(load.getType());
  Type element = stored.lookup(load.getSource());
  Place place = layout(RankedTensorType::get(type.getShape(), element), 1, /*dense=*/false);
  Stage stage{load, LLVM::UndefOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext())), place,
              type.getDimSize(0) * place.strides[0] * element.getIntOrFloatBitWidth() / 8};
  stage.place.base = stage.base;
  allocations.push_back({stage.base, 2 * stage.bytes, true});
  numbers[stage.base] = number;
  return stage;
}

/// A number of the loop's body in another turn, by `map` of the counter.
Value GpuLowering::atTurn(Value value, scf::ForOp loop, IRMapping &map) {
  Operation *op = value.getDefiningOp();
  if (map.contains(value) || !op || op->getBlock() != loop.getBody())
    return map.lookupOrDefault(value);
  for (Value operand : op->getOperands())
    atTurn(operand, loop, map);
  b.clone(*op, map);
  return map.lookup(value);
}

Value GpuLowering::bufferOf(const Stage &stage, Value buffer) {
  Value bytes =
      arith::IndexCastOp::create(b, loc, b.getI64Type(), arith::MulIOp::create(b, loc, buffer, constant(stage.bytes)));
  return memory.move(stage.base, b.getI8Type(), bytes);
}

/// Starts the copies of a turn's rows into buffer 0 or 1. Rows that do not exist become zeros.
void GpuLowering::fetch(scf::ForOp loop, Value turn, Value buffer) {
  IRMapping map = scalars;
  map.map(loop.getInductionVar(), turn);
  for (const Stage &stage : stages.lookup(loop)) {
    phi::LoadRowsOp load = stage.load;
    Type element = stored.lookup(load.getSource());
    Value first = atTurn(load.getFirst(), loop, map), valid = atTurn(load.getValid(), loop, map);
    Place to = stage.place;
    to.base = bufferOf(stage, buffer);
    const int64_t bytes = element.getIntOrFloatBitWidth() / 8, entries = kVectorBytes / bytes;
    auto branch = scf::IfOp::create(b, loc, isAligned.lookup(load.getSource()), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    overEntries({to.sizes[0], to.sizes[1] / entries}, [&](At at) {
      Value column = arith::MulIOp::create(b, loc, at[1], constant(entries));
      Value row = arith::AddIOp::create(b, loc, first, at[0]);
      Value source = rowEntry(load.getSource(), row, column, /*isVector=*/true);
      auto count = [&](int64_t x) { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(x)).getResult(); };
      Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at[0], valid);
      Value size = arith::SelectOp::create(b, loc, exists, count(kVectorBytes), count(0));
      threads.copyAsync(entryAddress(to, {at[0], column}), source, size);
    });
    b.setInsertionPoint(branch.elseYield());
    overEntries(to.sizes,
                [&](At at) { memory.store(loadOrZeros(load.getSource(), first, valid, at, 1), entryAddress(to, at)); });
  }
  threads.commitCopies();
}

void GpuLowering::beginLoop(scf::ForOp op) {
  llvm::SmallVector<Stage> own;
  for (auto load : op.getBody()->getOps<phi::LoadRowsOp>())
    if (isFetched(load, op))
      if (std::optional<Stage> stage = stageFor(load))
        own.push_back(*stage);
  if (own.empty())
    return;
  stages[op] = own;
  beginStep();
  Value begin = scalars.lookup(op.getLowerBound()), end = scalars.lookup(op.getUpperBound());
  Value any = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, begin, end);
  auto branch = scf::IfOp::create(b, loc, any, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  fetch(op, begin, constant(0));
}

/// Waits for this turn's rows, and starts the copies of the next into the buffer that the last turn has left.
void GpuLowering::beginTurn(scf::ForOp op, llvm::ArrayRef<Place> carried) {
  keepStates(op, carried);
  if (!stages.contains(op))
    return;
  threads.waitForCopies();
  beginStep();
  auto scalar = [&](Value x) { return scalars.lookup(x); };
  Value turn = scalar(op.getInductionVar()), step = scalar(op.getStep());
  Value number = arith::DivUIOp::create(b, loc, arith::SubIOp::create(b, loc, turn, scalar(op.getLowerBound())), step);
  Value buffer = arith::RemUIOp::create(b, loc, number, constant(2));
  Value next = arith::AddIOp::create(b, loc, turn, step);
  Value more = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, next, scalar(op.getUpperBound()));
  auto branch = scf::IfOp::create(b, loc, more, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    fetch(op, next, arith::SubIOp::create(b, loc, constant(1), buffer));
  }
  for (const Stage &stage : stages.lookup(op)) {
    phi::LoadRowsOp load = stage.load;
    Place place = stage.place;
    place.base = bufferOf(stage, buffer);
    fetched[load] = place;
    if (place.element == cast<RankedTensorType>(load.getType()).getElementType())
      places[load.getResult()] = place;
  }
}

} // namespace yaglom::compiler::nvgpu
