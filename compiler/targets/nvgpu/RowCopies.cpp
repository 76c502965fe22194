// Between the rows of operands and tiles: 16 bytes a thread where the caller's memory allows it.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/GpuLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

static llvm::SmallVector<int32_t> lanes(int64_t first, int64_t count) {
  return llvm::to_vector(llvm::seq<int32_t>(first, first + count));
}

static int64_t bytesOf(Type element) { return element.getIntOrFloatBitWidth() / 8; }

/// Whether rows are dense and each begins at a multiple of 16 bytes; the strides count elements.
Value GpuLowering::rowsAreAligned(Value operand, Value rowStride, Value columnStride) {
  auto number = [&](int64_t x) { return arith::ConstantIntOp::create(b, loc, x, 64).getResult(); };
  Value bytes = arith::MulIOp::create(b, loc, rowStride, number(bytesOf(stored.lookup(operand))));
  Value address = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), rowOperands.find(operand)->second.base);
  Value rest = arith::AndIOp::create(b, loc, arith::OrIOp::create(b, loc, bytes, address), number(kVectorBytes - 1));
  auto equals = [&](Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, number(y)).getResult();
  };
  return arith::AndIOp::create(b, loc, equals(rest, 0), equals(columnStride, 1));
}

/// Entries of an operand that a thread copies at once; 1 where a tile's rows are no whole vectors.
int64_t GpuLowering::vectorOf(Value operand, const Place &tile) const {
  const int64_t entries = kVectorBytes / bytesOf(stored.lookup(operand));
  const bool fits = tile.sizes.size() == 2 && tile.strides[1] == 1 && tile.sizes[1] % entries == 0 &&
                    tile.strides[0] % entries == 0 && tile.offset % entries == 0;
  return fits ? entries : 1;
}

/// The address of an entry of an operand's rows; a row that is one number has no column. The columns of a vector lie side by
/// side.
Value GpuLowering::rowEntry(Value operand, Value row, Value column, bool isVector) {
  Value address = rowAddress(rowOperands.find(operand)->second, stored.lookup(operand), row);
  if (!column)
    return address;
  auto wide = [&](Value x) { return arith::IndexCastOp::create(b, loc, b.getI64Type(), x).getResult(); };
  Value offset = wide(column);
  if (!isVector)
    offset = arith::MulIOp::create(b, loc, offset, wide(columnStrides.lookup(operand)));
  return memory.move(address, stored.lookup(operand), offset);
}

/// `body` for each entry of a tile, or each vector of entries, of the rows that exist.
void GpuLowering::overRows(Value operand, const Place &tile, llvm::function_ref<void(At, int64_t)> body) {
  const int64_t vector = vectorOf(operand, tile);
  if (vector == 1)
    return overEntries(tile.sizes, [&](At at) { body(at, 1); });
  auto branch = scf::IfOp::create(b, loc, isAligned.lookup(operand), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  overEntries({tile.sizes[0], tile.sizes[1] / vector},
              [&](At at) { body({at[0], arith::MulIOp::create(b, loc, at[1], constant(vector))}, vector); });
  b.setInsertionPoint(branch.elseYield());
  overEntries(tile.sizes, [&](At at) { body(at, 1); });
}

/// A number or a vector of numbers of this element type.
static Type shaped(Type element, int64_t entries) {
  return entries == 1 ? element : Type(VectorType::get({entries}, element));
}

static Value columnOf(llvm::ArrayRef<Value> at) { return at.size() > 1 ? at[1] : Value(); }

/// Entries of the rows from `first` on, as they lie in memory; zeros from row `valid` on.
Value GpuLowering::loadOrZeros(Value operand, Value first, Value valid, At at, int64_t entries) {
  Type element = stored.lookup(operand), type = shaped(element, entries);
  Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at[0], valid);
  auto branch = scf::IfOp::create(
      b, loc, exists,
      [&](OpBuilder &, Location) {
        Value row = arith::AddIOp::create(b, loc, at[0], first);
        Value address = rowEntry(operand, row, columnOf(at), entries > 1);
        scf::YieldOp::create(b, loc,
                             LLVM::LoadOp::create(b, loc, type, address, entries * bytesOf(element)).getResult());
      },
      [&](OpBuilder &, Location) {
        scf::YieldOp::create(b, loc, arith::ConstantOp::create(b, loc, b.getZeroAttr(type)).getResult());
      });
  return branch.getResult(0);
}

void GpuLowering::lowerLoad(phi::LoadRowsOp op) {
  if (auto here = fetched.find(op); here != fetched.end())
    return lowerFetched(op, here->second);
  Place to = placeOf(op.getResult());
  Value first = scalars.lookupOrDefault(op.getFirst()), valid = scalars.lookupOrDefault(op.getValid());
  beginStep();
  overRows(op.getSource(), to, [&](At at, int64_t entries) {
    storeVector(loadOrZeros(op.getSource(), first, valid, at, entries), to, at);
  });
}

/// Rows that have arrived serve as they are; float32 numbers are made from 16-bit ones where they are wanted.
void GpuLowering::lowerFetched(phi::LoadRowsOp op, const Place &rows) {
  Place to = placeOf(op.getResult());
  if (to.base == rows.base)
    return;
  if (copies.contains(to.base) && copyOf(to).element == rows.element)
    copies[to.base] = rows.base;
  beginStep();
  const int64_t entries = kVectorBytes / bytesOf(rows.element);
  overEntries({to.sizes[0], to.sizes[1] / entries}, [&](At at) {
    Value column = arith::MulIOp::create(b, loc, at[1], constant(entries));
    Value numbers = LLVM::LoadOp::create(b, loc, VectorType::get({entries}, rows.element),
                                         entryAddress(rows, {at[0], column}), kVectorBytes);
    storeWide(widened(numbers, VectorType::get({entries}, to.element)), to, {at[0], column});
  });
}

/// A vector of a tile's numbers, 16 bytes at a time.
void GpuLowering::storeWide(Value numbers, const Place &to, At at) {
  const int64_t entries = cast<VectorType>(numbers.getType()).getNumElements();
  const int64_t part = kVectorBytes / bytesOf(to.element);
  Value address = entryAddress(to, at);
  for (int64_t i = 0; i < entries; i += part) {
    Value piece = numbers;
    if (part < entries)
      piece = LLVM::ShuffleVectorOp::create(b, loc, numbers, numbers, lanes(i, part));
    LLVM::StoreOp::create(b, loc, piece, memory.move(address, to.element, i), kVectorBytes);
  }
}

/// Numbers as they lie in memory, to a tile and to the 16-bit numbers beside it.
void GpuLowering::storeVector(Value numbers, const Place &to, At at) {
  auto type = dyn_cast<VectorType>(numbers.getType());
  if (!type)
    return store(widened(numbers, to.element), to, at);
  Value wide = widened(numbers, VectorType::get(type.getShape(), to.element));
  storeWide(wide, to, at);
  if (!copies.contains(to.base))
    return;
  Place copy = copyOf(to);
  Value narrow =
      narrowed(type.getElementType() == copy.element ? numbers : wide, VectorType::get(type.getShape(), copy.element));
  LLVM::StoreOp::create(b, loc, narrow, entryAddress(copy, at), type.getNumElements() * bytesOf(copy.element));
}

void GpuLowering::lowerStore(phi::StoreRowsOp op) {
  Place from = placeOf(op.getTile());
  Type element = stored.lookup(op.getTarget());
  Value first = scalars.lookupOrDefault(op.getFirst()), valid = scalars.lookupOrDefault(op.getValid());
  beginStep();
  overRows(op.getTarget(), from, [&](At at, int64_t entries) {
    Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at[0], valid);
    auto branch = scf::IfOp::create(b, loc, exists, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    Value row = arith::AddIOp::create(b, loc, at[0], first);
    Value address = rowEntry(op.getTarget(), row, columnOf(at), entries > 1);
    if (entries == 1)
      return memory.store(narrowed(load(from, at), element), address);
    // A tile's numbers are at most twice as wide as those in memory.
    const int64_t part = std::min(entries, kVectorBytes / bytesOf(from.element));
    Value source = entryAddress(from, at);
    auto piece = [&](int64_t first) {
      return LLVM::LoadOp::create(b, loc, VectorType::get({part}, from.element),
                                  memory.move(source, from.element, first), kVectorBytes);
    };
    Value numbers = piece(0);
    if (part < entries)
      numbers = LLVM::ShuffleVectorOp::create(b, loc, numbers, piece(part), lanes(0, entries));
    LLVM::StoreOp::create(b, loc, narrowed(numbers, shaped(element, entries)), address, kVectorBytes);
  });
}

} // namespace yaglom::compiler::nvgpu
