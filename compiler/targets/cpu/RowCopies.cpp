// Between the user's rows and tiles: whole rows, or transposed so that tokens lie along the lanes.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/TileLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace yaglom::compiler::cpu {

Value TileLowering::rowAddress(const RowOperand &operand, Type element, Value row) {
  Value distance = arith::MulIOp::create(b, loc, row, operand.stride);
  return memory.move(operand.base, element, arith::IndexCastOp::create(b, loc, b.getI64Type(), distance));
}

void TileLowering::lowerLoad(phi::LoadRowsOp op) {
  const RowOperand &from = rowOperands.find(op.getSource())->second;
  Place to = placeOf(op.getResult());
  auto scalar = [&](Value x) { return scalars.lookupOrDefault(x); };
  Value first = scalar(op.getFirst()), valid = scalar(op.getValid());
  if (to.sizes.size() == 1)
    loadScalars(from, to, first, valid);
  else if (to.lane == 0)
    loadTransposed(from, to, first, valid);
  else
    loadRowMajor(from, to, first, valid);
}

/// One number a token.
void TileLowering::loadScalars(const RowOperand &from, const Place &to, Value first, Value valid) {
  fillPlace(to, 0);
  auto loop = scf::ForOp::create(b, loc, constant(0), valid, constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value row = loop.getInductionVar();
  Value address = rowAddress(from, to.element, arith::AddIOp::create(b, loc, row, first));
  memory.store(memory.load(address, to.element), memory.address(to, {{row, 0}}));
}

void TileLowering::loadRowMajor(const RowOperand &from, const Place &to, Value first, Value valid) {
  int64_t columns = to.sizes[1], width = machine.lanes(to.element.getIntOrFloatBitWidth() / 8);
  OpBuilder::InsertionGuard guard(b);
  auto loop = scf::ForOp::create(b, loc, constant(0), valid, constant(1));
  auto rest = scf::ForOp::create(b, loc, valid, constant(to.sizes[0]), constant(1));
  for (bool copies : {true, false}) {
    scf::ForOp rows = copies ? loop : rest;
    b.setInsertionPointToStart(rows.getBody());
    Value row = rows.getInductionVar(), target = memory.address(to, {{row, 0}, {{}, 0}});
    Value source = copies ? rowAddress(from, to.element, arith::AddIOp::create(b, loc, row, first)) : Value();
    Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(VectorType::get({width}, to.element)));
    for (int64_t c = 0; c < columns; c += width) {
      Value vector = zeros;
      if (copies)
        vector = memory.loadVector(memory.move(source, to.element, c), to.element, width, columns - c);
      memory.storeVector(vector, memory.move(target, to.element, c), width);
    }
  }
}

/// width rows x width columns: log2(width) rounds of interleaving the two halves transpose them.
void TileLowering::transposeBlock(const RowOperand &from, const Place &to, Value first, Value row, Value column,
                                  int64_t columns) {
  int64_t width = machine.lanes(to.element.getIntOrFloatBitWidth() / 8);
  llvm::SmallVector<Value> vectors;
  Value start = arith::AddIOp::create(b, loc, row, first);
  for (int64_t t = 0; t < width; ++t) {
    Value address = rowAddress(from, to.element, arith::AddIOp::create(b, loc, start, constant(t)));
    address = memory.move(address, to.element, arith::IndexCastOp::create(b, loc, b.getI64Type(), column));
    vectors.push_back(memory.loadVector(address, to.element, width, columns));
  }
  llvm::SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < width / 2; ++i) {
    low.append({i, width + i});
    high.append({width / 2 + i, width + width / 2 + i});
  }
  for (int64_t round = 1; round < width; round *= 2) {
    llvm::SmallVector<Value> next;
    for (int64_t i = 0; i < width / 2; ++i) {
      next.push_back(vector::ShuffleOp::create(b, loc, vectors[i], vectors[i + width / 2], low));
      next.push_back(vector::ShuffleOp::create(b, loc, vectors[i], vectors[i + width / 2], high));
    }
    vectors = next;
  }
  for (int64_t c = 0; c < std::min(columns, width); ++c)
    memory.storeVector(vectors[c], memory.address(to, {{row, 0}, {column, c}}), width);
}

void TileLowering::loadTransposed(const RowOperand &from, const Place &to, Value first, Value valid) {
  int64_t rows = to.sizes[0], columns = to.sizes[1];
  int64_t width = machine.lanes(to.element.getIntOrFloatBitWidth() / 8), whole = columns / width * width;
  Value full = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, valid, constant(rows));
  auto branch = scf::IfOp::create(b, loc, full, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  {
    OpBuilder::InsertionGuard inside(b);
    auto blocks = scf::ForOp::create(b, loc, constant(0), constant(rows), constant(width));
    b.setInsertionPointToStart(blocks.getBody());
    if (whole) {
      auto across = scf::ForOp::create(b, loc, constant(0), constant(whole), constant(width));
      OpBuilder::InsertionGuard deeper(b);
      b.setInsertionPointToStart(across.getBody());
      transposeBlock(from, to, first, blocks.getInductionVar(), across.getInductionVar(), width);
    }
    if (whole < columns)
      transposeBlock(from, to, first, blocks.getInductionVar(), constant(whole), columns - whole);
  }
  // The last rows of a sequence, entry by entry.
  b.setInsertionPoint(branch.elseYield());
  fillPlace(to, 0);
  auto each = scf::ForOp::create(b, loc, constant(0), valid, constant(1));
  b.setInsertionPointToStart(each.getBody());
  Value row = each.getInductionVar();
  Value source = rowAddress(from, to.element, arith::AddIOp::create(b, loc, row, first));
  auto across = scf::ForOp::create(b, loc, constant(0), constant(columns), constant(1));
  b.setInsertionPointToStart(across.getBody());
  Value column = across.getInductionVar();
  Value address = memory.move(source, to.element, arith::IndexCastOp::create(b, loc, b.getI64Type(), column));
  memory.store(memory.load(address, to.element), memory.address(to, {{row, 0}, {column, 0}}));
}

void TileLowering::lowerStore(phi::StoreRowsOp op) {
  const RowOperand &to = rowOperands.find(op.getTarget())->second;
  Place from = placeOf(op.getTile());
  auto scalar = [&](Value x) { return scalars.lookupOrDefault(x); };
  auto loop = scf::ForOp::create(b, loc, constant(0), scalar(op.getValid()), constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value row = loop.getInductionVar();
  Value target = rowAddress(to, from.element, arith::AddIOp::create(b, loc, row, scalar(op.getFirst())));
  if (from.sizes.size() == 1)
    return memory.store(memory.load(memory.address(from, {{row, 0}}), from.element), target);
  Value source = memory.address(from, {{row, 0}, {{}, 0}});
  int64_t columns = from.sizes[1], width = machine.lanes(from.element.getIntOrFloatBitWidth() / 8);
  bool dense = from.isDense(1);
  for (int64_t c = 0; c < columns; c += dense ? width : 1) {
    Value s = memory.move(source, from.element, c * from.strides[1]), t = memory.move(target, from.element, c);
    if (dense)
      memory.storeVector(memory.loadVector(s, from.element, width, columns - c), t, columns - c);
    else
      memory.store(memory.load(s, from.element), t);
  }
}

} // namespace yaglom::compiler::cpu
