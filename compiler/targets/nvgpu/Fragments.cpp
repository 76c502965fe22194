// The layouts of mma.sync's operands, by the PTX manual.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/Fragments.h"

#include "compiler/targets/nvgpu/KernelAbi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

int64_t Fragments::depth() const { return products == Products::Exact ? 1 : isHalf() ? 16 : 8; }

Value Fragments::bits(uint32_t x) { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(x))); }

Value Fragments::plus(Value x, int64_t more) {
  return more ? arith::AddIOp::create(b, loc, x, arith::ConstantIndexOp::create(b, loc, more)).getResult() : x;
}

Value Fragments::rounded(Value x) {
  Type type = products == Products::Half ? Type(b.getF16Type()) : Type(b.getBF16Type());
  return arith::TruncFOp::create(b, loc, type, x);
}

Fragments::Operand Fragments::left(Read read) {
  Value g = threads.group, t = threads.member, none = arith::ConstantIndexOp::create(b, loc, 0);
  if (products == Products::Exact)
    return make({{g, none}, {plus(g, 8), none}}, read);
  if (!isHalf())
    return make({{g, t}, {plus(g, 8), t}, {g, plus(t, 4)}, {plus(g, 8), plus(t, 4)}}, read);
  Value pair = arith::MulIOp::create(b, loc, t, arith::ConstantIndexOp::create(b, loc, 2));
  llvm::SmallVector<std::pair<Value, Value>> at;
  for (int64_t k : {0, 8})
    for (int64_t row : {0, 8})
      for (int64_t i : {0, 1})
        at.push_back({plus(g, row), plus(pair, k + i)});
  return make(at, read);
}

Fragments::Operand Fragments::right(Read read) {
  Value g = threads.group, t = threads.member, none = arith::ConstantIndexOp::create(b, loc, 0);
  Value pair = arith::MulIOp::create(b, loc, t, arith::ConstantIndexOp::create(b, loc, 2));
  if (products == Products::Exact)
    return make({{pair, none}, {plus(pair, 1), none}}, read);
  if (!isHalf())
    return make({{g, t}, {g, plus(t, 4)}}, read);
  return make({{g, pair}, {g, plus(pair, 1)}, {g, plus(pair, 8)}, {g, plus(pair, 9)}}, read);
}

Fragments::Operand Fragments::make(llvm::ArrayRef<std::pair<Value, Value>> at, Read read) {
  Operand operand;
  llvm::SmallVector<Value> entries;
  for (auto [index, product] : at)
    entries.push_back(read(index, product));
  if (products == Products::Exact) {
    operand.high = entries;
    return operand;
  }
  Type word = b.getI32Type();
  if (isHalf()) {
    for (size_t i = 0; i < entries.size(); i += 2) {
      Value low = rounded(entries[i]), high = rounded(entries[i + 1]);
      auto type = VectorType::get({2}, low.getType());
      Value pair = LLVM::UndefOp::create(b, loc, type);
      pair = LLVM::InsertElementOp::create(b, loc, pair, low, bits(0));
      pair = LLVM::InsertElementOp::create(b, loc, pair, high, bits(1));
      operand.high.push_back(LLVM::BitcastOp::create(b, loc, word, pair));
    }
    return operand;
  }
  for (Value x : entries) {
    Value whole = arith::BitcastOp::create(b, loc, word, x);
    if (products == Products::Tf32) {
      operand.high.push_back(whole); // the hardware drops what tf32 lacks
      continue;
    }
    Value high = arith::AndIOp::create(b, loc, whole, bits(0xffffe000));
    Value rest = arith::SubFOp::create(b, loc, x, arith::BitcastOp::create(b, loc, x.getType(), high));
    // Infinity less itself is no number: there the high part says all.
    Value isNumber = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, rest, rest);
    Value low = arith::AddIOp::create(b, loc, arith::BitcastOp::create(b, loc, word, rest), bits(0x1000));
    low = arith::AndIOp::create(b, loc, low, bits(0xffffe000));
    operand.high.push_back(high);
    operand.low.push_back(arith::SelectOp::create(b, loc, isNumber, low, bits(0)));
  }
  return operand;
}

llvm::SmallVector<Value> Fragments::loadBlocks(Value address, bool transposed) {
  Type word = b.getI32Type();
  auto four = LLVM::LLVMStructType::getLiteral(b.getContext(), {word, word, word, word});
  Value shared = LLVM::AddrSpaceCastOp::create(
      b, loc, LLVM::LLVMPointerType::get(b.getContext(), KernelAbi::kSharedSpace), address);
  Value result = threads.intrinsic(transposed ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                                              : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16",
                                   four, {shared});
  llvm::SmallVector<Value> registers;
  for (int64_t i = 0; i < 4; ++i)
    registers.push_back(LLVM::ExtractValueOp::create(b, loc, result, llvm::ArrayRef<int64_t>{i}));
  return registers;
}

void Fragments::issue(llvm::StringRef name, llvm::ArrayRef<Value> left, llvm::ArrayRef<Value> right,
                      llvm::MutableArrayRef<Value> sums) {
  Type type = b.getF32Type();
  auto four = LLVM::LLVMStructType::getLiteral(b.getContext(), {type, type, type, type});
  llvm::SmallVector<Value> operands;
  auto add = [&](Value x) {
    if (products == Products::Half)
      x = LLVM::BitcastOp::create(b, loc, VectorType::get({2}, b.getF16Type()), x);
    operands.push_back(x);
  };
  llvm::for_each(left, add);
  llvm::for_each(right, add);
  llvm::append_range(operands, sums);
  Value result = threads.intrinsic(name, four, operands);
  for (int64_t i = 0; i < 4; ++i)
    sums[i] = LLVM::ExtractValueOp::create(b, loc, result, llvm::ArrayRef<int64_t>{i});
}

void Fragments::multiply(const Operand &left, const Operand &right, llvm::MutableArrayRef<Value> sums) {
  constexpr llvm::StringLiteral kTf32 = "llvm.nvvm.mma.m16n8k8.row.col.tf32";
  switch (products) {
  case Products::Exact:
    for (int i = 0; i < 4; ++i)
      sums[i] = math::FmaOp::create(b, loc, left.high[i / 2], right.high[i % 2], sums[i]);
    return;
  case Products::Float: {
    // Tensor cores cut their sums off, always towards 0: an error that grows with the number of steps. Those of one step are added
    // by rounding ones (Ootomo, Yokota 2022). Small ones first.
    llvm::SmallVector<Value> step(sums.size(), arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0)));
    issue(kTf32, left.low, right.high, step);
    issue(kTf32, left.high, right.low, step);
    issue(kTf32, left.high, right.high, step);
    for (auto [sum, part] : llvm::zip(sums, step))
      sum = arith::AddFOp::create(b, loc, sum, part);
    return;
  }
  case Products::Tf32:
    return issue(kTf32, left.high, right.high, sums);
  case Products::Half:
    return issue("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", left.high, right.high, sums);
  case Products::BFloat:
    return issue("llvm.nvvm.mma.m16n8k16.row.col.bf16", left.high, right.high, sums);
  }
}

} // namespace yaglom::compiler::nvgpu
