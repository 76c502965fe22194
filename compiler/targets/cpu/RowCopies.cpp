// Between the user's rows and tiles: whole rows, or transposed so that tokens lie along the lanes.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/CpuLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;

namespace yaglom::compiler::cpu {

void CpuLowering::lowerLoad(phi::LoadRowsOp op) {
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
void CpuLowering::loadScalars(const RowOperand &from, const Place &to, Value first, Value valid) {
  fillPlace(to, 0);
  auto loop = scf::ForOp::create(b, loc, constant(0), valid, constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value row = loop.getInductionVar();
  Value address = rowAddress(from, to.element, arith::AddIOp::create(b, loc, row, first));
  memory.store(memory.load(address, to.element), memory.address(to, {{row, 0}}));
}

void CpuLowering::loadRowMajor(const RowOperand &from, const Place &to, Value first, Value valid) {
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

/// One vector of rows, `group` columns from `column`. Each 128-bit lane of a vector takes its rows from memory, so that what
/// is left is a small transpose within lanes: shuffles across lanes are slow where vectors are made of halves.
void CpuLowering::transposeBlock(const RowOperand &from, const Place &to, Value first, Value row, Value column,
                                 int64_t columns) {
  int64_t bytes = to.element.getIntOrFloatBitWidth() / 8, width = machine.lanes(bytes), group = 16 / bytes;
  Value start = arith::AddIOp::create(b, loc, row, first);
  llvm::SmallVector<Value> vectors;
  for (int64_t i = 0; i < group; ++i) {
    llvm::SmallVector<Value> parts;
    for (int64_t lane = 0; lane < width / group; ++lane) {
      Value token = arith::AddIOp::create(b, loc, start, constant(lane * group + i));
      Value address = rowAddress(from, to.element, token);
      address = memory.move(address, to.element, arith::IndexCastOp::create(b, loc, b.getI64Type(), column));
      parts.push_back(memory.loadVector(address, to.element, group, columns));
    }
    vectors.push_back(joinVectors(parts));
  }
  // log2(group) rounds of interleaving the two halves, lane by lane.
  llvm::SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < width; lane += group)
    for (int64_t i = 0; i < group / 2; ++i) {
      low.append({lane + i, width + lane + i});
      high.append({lane + group / 2 + i, width + lane + group / 2 + i});
    }
  for (int64_t round = 1; round < group; round *= 2) {
    llvm::SmallVector<Value> next;
    for (int64_t i = 0; i < group / 2; ++i) {
      next.push_back(vector::ShuffleOp::create(b, loc, vectors[i], vectors[i + group / 2], low));
      next.push_back(vector::ShuffleOp::create(b, loc, vectors[i], vectors[i + group / 2], high));
    }
    vectors = next;
  }
  for (int64_t c = 0; c < std::min(columns, group); ++c)
    memory.storeVector(vectors[c], memory.address(to, {{row, 0}, {column, c}}), width);
}

/// Vectors of equal length one after the other.
Value CpuLowering::joinVectors(llvm::SmallVector<Value> parts) {
  while (parts.size() > 1) {
    int64_t length = cast<VectorType>(parts[0].getType()).getNumElements();
    llvm::SmallVector<int64_t> all(2 * length);
    std::iota(all.begin(), all.end(), 0);
    llvm::SmallVector<Value> next;
    for (size_t i = 0; i < parts.size(); i += 2)
      next.push_back(vector::ShuffleOp::create(b, loc, parts[i], parts[i + 1], all));
    parts = next;
  }
  return parts[0];
}

void CpuLowering::loadTransposed(const RowOperand &from, const Place &to, Value first, Value valid) {
  int64_t rows = to.sizes[0], columns = to.sizes[1];
  int64_t bytes = to.element.getIntOrFloatBitWidth() / 8, width = machine.lanes(bytes), group = 16 / bytes;
  int64_t whole = columns / group * group;
  Value full = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, valid, constant(rows));
  auto branch = scf::IfOp::create(b, loc, full, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  {
    OpBuilder::InsertionGuard inside(b);
    auto blocks = scf::ForOp::create(b, loc, constant(0), constant(rows), constant(width));
    b.setInsertionPointToStart(blocks.getBody());
    if (whole) {
      auto across = scf::ForOp::create(b, loc, constant(0), constant(whole), constant(group));
      OpBuilder::InsertionGuard deeper(b);
      b.setInsertionPointToStart(across.getBody());
      transposeBlock(from, to, first, blocks.getInductionVar(), across.getInductionVar(), group);
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

void CpuLowering::lowerStore(phi::StoreRowsOp op) {
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
