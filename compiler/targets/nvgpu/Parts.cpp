// Parts of one item on several blocks: their rows, the states they begin with, and the states that a run leaves on its way.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/GpuLowering.h"
#include "compiler/targets/nvgpu/KernelAbi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

/// The rows of this block, and where the states of its item are. Everything in 64 bits, at the start of the function.
void GpuLowering::bindPart(Value item, Value part) {
  Block &body = program.getBody().front(), &entry = code.getBody().front();
  auto argument = [&](int64_t i) -> Value { return entry.getArgument(i); };
  auto multiply = [&](Value x, Value y) { return arith::MulIOp::create(b, loc, x, y).getResult(); };
  auto add = [&](Value x, Value y) { return arith::AddIOp::create(b, loc, x, y).getResult(); };
  auto bindRow = [&](int64_t word, Value row) {
    scalars.map(body.getArgument(word), arith::IndexCastOp::create(b, loc, b.getIndexType(), row).getResult());
  };
  Value first = add(argument(KernelAbi::Begin), multiply(part, argument(KernelAbi::PartRows)));
  Value end = add(first, argument(KernelAbi::PartRows));
  bindRow(KernelAbi::Begin, first);
  bindRow(KernelAbi::QueryRows, arith::MinSIOp::create(b, loc, end, argument(KernelAbi::QueryRows)));
  // An address of 0 stays 0: there is no such state.
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 64), ofItem = multiply(item, argument(KernelAbi::StateBytes));
  auto moved = [&](int64_t word, Value offset) {
    Value isGiven = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, argument(word), zero);
    return add(argument(word), arith::SelectOp::create(b, loc, isGiven, offset, zero));
  };
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value ofPart = add(ofItem, multiply(part, argument(KernelAbi::PartBytes)));
  stateIn = LLVM::IntToPtrOp::create(b, loc, pointer, moved(KernelAbi::StateIn, ofPart));
  stateOut = LLVM::IntToPtrOp::create(b, loc, pointer, moved(KernelAbi::StateOut, ofItem));
  kept = moved(KernelAbi::Keep, ofItem);
}

/// Writes what is carried into this turn where the caller wants the state before its row. Only of a loop whose results are the
/// item's state.
void GpuLowering::keepStates(scf::ForOp op, llvm::ArrayRef<Place> carried) {
  struct Member {
    Place place;
    RankedTensorType type;
    int64_t offset;
  };
  llvm::SmallVector<Member> members;
  for (auto [result, place] : llvm::zip(op.getResults(), carried))
    for (Operation *user : result.getUsers())
      if (auto out = dyn_cast<phi::StateOutOp>(user))
        members.push_back({place, cast<RankedTensorType>(result.getType()), int64_t(out.getOffset())});
  if (members.empty())
    return;
  auto argument = [&](int64_t i) -> Value { return code.getBody().front().getArgument(i); };
  auto branchIf = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    Value holds = arith::CmpIOp::create(b, loc, predicate, x, y);
    auto branch = scf::IfOp::create(b, loc, holds, /*withElseRegion=*/false);
    b.setInsertionPoint(branch.thenYield());
  };
  OpBuilder::InsertionGuard guard(b);
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 64);
  branchIf(arith::CmpIPredicate::ne, kept, zero);
  auto narrow = [&](Value x) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), x).getResult(); };
  Value row = scalars.lookup(op.getInductionVar()), apart = narrow(argument(KernelAbi::KeepRows));
  branchIf(arith::CmpIPredicate::eq, arith::RemUIOp::create(b, loc, row, apart), constant(0));
  Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), arith::DivUIOp::create(b, loc, row, apart));
  branchIf(arith::CmpIPredicate::ult, number, argument(KernelAbi::KeepCount));
  Value offset = arith::MulIOp::create(b, loc, number, argument(KernelAbi::KeepBytes));
  Value at = arith::AddIOp::create(b, loc, kept, offset);
  Value address = LLVM::IntToPtrOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), at);
  for (const Member &member : members)
    copyPlace(member.place, rowMajor(address, member.type, member.offset));
}

} // namespace yaglom::compiler::nvgpu
