// Functions by the special function unit, where results have 16 bits anyway.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/GpuLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numbers>

using namespace mlir;

namespace yaglom::compiler::nvgpu {

/// The value of `op`, one of float32's functions, from its operands, or null when it has no fast form. Errors: sin and cos
/// 2^-20 absolute to |x| = 1e5 (two parts of 2 pi, then sin.approx and cos.approx within [-pi, pi]); exp and exp2 2^-22
/// relative and 2^-24 |x| from the product; log and log2 2^-22 absolute beside 1, relative elsewhere
/// (PTX ISA, "Floating Point Instructions").
Value GpuLowering::emitFast(Operation &op, ValueRange operands) {
  if (!isHalf() || op.getNumOperands() != 1 || !op.getResult(0).getType().isF32())
    return {};
  Value x = operands[0];
  Type type = x.getType();
  auto number = [&](double value) {
    return arith::ConstantOp::create(b, loc, FloatAttr::get(type, value)).getResult();
  };
  auto times = [&](Value y, double factor) { return arith::MulFOp::create(b, loc, y, number(factor)).getResult(); };
  auto reduced = [&] {
    Value turns = math::RoundEvenOp::create(b, loc, times(x, 0.5 * std::numbers::inv_pi));
    constexpr double kTurn = 2 * std::numbers::pi;
    const double high = float(kTurn), low = kTurn - high;
    Value rest = math::FmaOp::create(b, loc, turns, number(-high), x);
    return math::FmaOp::create(b, loc, turns, number(-low), rest).getResult();
  };
  auto fast = LLVM::FastmathFlagsAttr::get(b.getContext(), LLVM::FastmathFlags::afn);
  auto logarithm = [&] { return threads.intrinsic("llvm.nvvm.lg2.approx.f", type, {x}); };
  return llvm::TypeSwitch<Operation *, Value>(&op)
      .Case([&](math::SinOp) { return LLVM::SinOp::create(b, loc, type, reduced(), fast); })
      .Case([&](math::CosOp) { return LLVM::CosOp::create(b, loc, type, reduced(), fast); })
      .Case([&](math::Exp2Op) { return LLVM::Exp2Op::create(b, loc, type, x, fast); })
      .Case([&](math::ExpOp) { return LLVM::Exp2Op::create(b, loc, type, times(x, std::numbers::log2e), fast); })
      .Case([&](math::Log2Op) { return logarithm(); })
      .Case([&](math::LogOp) { return times(logarithm(), std::numbers::ln2); })
      .Default(Value());
}

} // namespace yaglom::compiler::nvgpu
