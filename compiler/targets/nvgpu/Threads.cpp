// Special registers, barriers and shuffles.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/Threads.h"

#include "compiler/targets/nvgpu/KernelAbi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

static constexpr llvm::StringLiteral kBarrier = "llvm.nvvm.barrier.cta.sync.aligned.all";

Value Threads::intrinsic(llvm::StringRef name, Type result, ValueRange operands) {
  auto text = b.getStringAttr(name);
  if (!result) {
    LLVM::CallIntrinsicOp::create(b, loc, text, operands);
    return {};
  }
  return LLVM::CallIntrinsicOp::create(b, loc, result, text, operands).getResult(0);
}

void Threads::begin() {
  auto special = [&](llvm::StringRef name) {
    return intrinsic(("llvm.nvvm.read.ptx.sreg." + name).str(), b.getI32Type(), {});
  };
  auto constant = [&](int64_t x) { return arith::ConstantIndexOp::create(b, loc, x); };
  block = arith::ExtUIOp::create(b, loc, b.getI64Type(), special("ctaid.x"));
  thread = arith::IndexCastOp::create(b, loc, b.getIndexType(), special("tid.x"));
  warp = arith::DivUIOp::create(b, loc, thread, constant(32));
  lane = arith::RemUIOp::create(b, loc, thread, constant(32));
  group = arith::DivUIOp::create(b, loc, lane, constant(4));
  member = arith::RemUIOp::create(b, loc, lane, constant(4));
}

void Threads::barrier() {
  Value id = arith::ConstantIntOp::create(b, loc, 0, 32);
  intrinsic(kBarrier, {}, {id});
}

bool Threads::isBarrier(Operation *op) {
  auto call = dyn_cast<LLVM::CallIntrinsicOp>(op);
  return call && call.getIntrin() == kBarrier;
}

static constexpr llvm::StringLiteral kCopy = "llvm.nvvm.cp.async.cg.shared.global.16.s";

void Threads::copyAsync(Value shared, Value global, Value size) {
  auto in = [&](Value address, unsigned space) {
    return LLVM::AddrSpaceCastOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space), address)
        .getResult();
  };
  intrinsic(kCopy, {}, {in(shared, KernelAbi::kSharedSpace), in(global, KernelAbi::kGlobalSpace), size});
}

void Threads::commitCopies() { intrinsic("llvm.nvvm.cp.async.commit.group", {}, {}); }
void Threads::waitForCopies() { intrinsic("llvm.nvvm.cp.async.wait.all", {}, {}); }

bool Threads::isCopy(Operation *op) {
  auto call = dyn_cast<LLVM::CallIntrinsicOp>(op);
  return call && call.getIntrin() == kCopy;
}

Value Threads::exchange(Value value, int distance) {
  Type type = value.getType(), word = b.getI32Type();
  auto constant = [&](int64_t x, Type of) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(of, x)).getResult();
  };
  auto shuffle = [&](Value x) {
    return intrinsic("llvm.nvvm.shfl.sync.bfly.i32", word,
                     {constant(-1, word), x, constant(distance, word), constant(31, word)});
  };
  if (type.getIntOrFloatBitWidth() == 32) {
    Value bits = type == word ? value : arith::BitcastOp::create(b, loc, word, value).getResult();
    Value other = shuffle(bits);
    return type == word ? other : arith::BitcastOp::create(b, loc, type, other).getResult();
  }
  Type wide = b.getI64Type();
  Value bits = arith::BitcastOp::create(b, loc, wide, value), half = constant(32, wide);
  Value low = shuffle(arith::TruncIOp::create(b, loc, word, bits));
  Value high = shuffle(arith::TruncIOp::create(b, loc, word, arith::ShRUIOp::create(b, loc, bits, half)));
  Value joined = arith::OrIOp::create(b, loc, arith::ExtUIOp::create(b, loc, wide, low),
                                      arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, wide, high), half));
  return arith::BitcastOp::create(b, loc, type, joined);
}

} // namespace yaglom::compiler::nvgpu
