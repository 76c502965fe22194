// Address arithmetic: the part that is known is one constant, so that neighbouring accesses share a base.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/Memory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace yaglom::compiler {

static int64_t bytesOf(Type element) { return element.getIntOrFloatBitWidth() / 8; }

Value Memory::move(Value base, Type element, int64_t elements) {
  if (elements == 0)
    return base;
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  return LLVM::GEPOp::create(b, loc, pointer, element, base, llvm::ArrayRef<LLVM::GEPArg>{int32_t(elements)});
}

Value Memory::move(Value base, Type element, Value elements) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  return LLVM::GEPOp::create(b, loc, pointer, element, base, llvm::ArrayRef<LLVM::GEPArg>{elements});
}

Value Memory::address(const Place &place, llvm::ArrayRef<Index> indices) {
  int64_t constant = place.offset;
  Value sum;
  for (auto [index, stride] : llvm::zip(indices, place.strides)) {
    constant += index.constant * stride;
    if (!index.value)
      continue;
    Value term = index.value;
    if (stride != 1)
      term = arith::MulIOp::create(b, loc, term, arith::ConstantIndexOp::create(b, loc, stride));
    sum = sum ? arith::AddIOp::create(b, loc, sum, term).getResult() : term;
  }
  Value base = place.base;
  if (sum)
    base = move(base, place.element, arith::IndexCastOp::create(b, loc, b.getI64Type(), sum));
  return move(base, place.element, constant);
}

Value Memory::load(Value address, Type element) {
  return LLVM::LoadOp::create(b, loc, element, address, bytesOf(element));
}

void Memory::store(Value value, Value address) {
  LLVM::StoreOp::create(b, loc, value, address, bytesOf(value.getType()));
}

void Memory::prefetch(Value address) { LLVM::Prefetch::create(b, loc, address, /*rw=*/0, /*hint=*/3, /*cache=*/1); }

Value Memory::prefixMask(int64_t lanes, int64_t valid) {
  llvm::SmallVector<bool> bits(lanes);
  for (int64_t i = 0; i < lanes; ++i)
    bits[i] = i < valid;
  auto type = VectorType::get({lanes}, b.getI1Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits)));
}

Value Memory::loadVector(Value address, Type element, int64_t lanes, int64_t valid) {
  auto type = VectorType::get({lanes}, element);
  if (valid >= lanes)
    return LLVM::LoadOp::create(b, loc, type, address, bytesOf(element));
  Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  return LLVM::MaskedLoadOp::create(b, loc, type, address, prefixMask(lanes, valid), zeros,
                                    b.getI32IntegerAttr(bytesOf(element)));
}

void Memory::storeVector(Value vector, Value address, int64_t valid) {
  auto type = cast<VectorType>(vector.getType());
  int64_t lanes = type.getNumElements(), bytes = bytesOf(type.getElementType());
  if (valid >= lanes) {
    LLVM::StoreOp::create(b, loc, vector, address, bytes);
    return;
  }
  LLVM::MaskedStoreOp::create(b, loc, vector, address, prefixMask(lanes, valid), b.getI32IntegerAttr(bytes));
}

} // namespace yaglom::compiler
