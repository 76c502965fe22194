// One walk that finds the math operations and replaces each by its expansion.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/ExpandMath.h"

#include "compiler/lower/ExpandMathFunctions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace math = mlir::math;
using mlir::Operation;
using mlir::Value;

namespace yaglom::compiler {
namespace {

bool isExpanded(Operation *op) {
  if (!mlir::isa<math::SinOp, math::CosOp, math::SincosOp, math::TanOp, math::ExpOp, math::Exp2Op, math::ExpM1Op,
                 math::LogOp, math::Log2Op, math::Log1pOp, math::TanhOp, math::ErfOp, math::PowFOp, math::RsqrtOp>(op))
    return false;
  mlir::Type type = op->getOperand(0).getType();
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  return (element.isF32() || element.isF64()) && (type == element || mlir::isa<mlir::VectorType>(type));
}

/// The first block of the function (or whatever else is isolated from above) that holds `op`.
mlir::Block *entryBlock(Operation *op) { return &op->getParentOfType<mlir::func::FuncOp>().getBody().front(); }

/// sin, cos and sincos of one value in one block, in their order.
using Circular = llvm::MapVector<std::pair<Value, mlir::Block *>, llvm::SmallVector<Operation *, 2>>;

Value expandOne(const MathEmitter &e, Operation *op) {
  Value x = op->getOperand(0);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<math::TanOp>([&](auto) { return expandTan(e, x); })
      .Case<math::ExpOp>([&](auto) { return expandExp(e, x); })
      .Case<math::Exp2Op>([&](auto) { return expandExp2(e, x); })
      .Case<math::ExpM1Op>([&](auto) { return expandExpm1(e, x); })
      .Case<math::LogOp>([&](auto) { return expandLog(e, x); })
      .Case<math::Log2Op>([&](auto) { return expandLog2(e, x); })
      .Case<math::Log1pOp>([&](auto) { return expandLog1p(e, x); })
      .Case<math::TanhOp>([&](auto) { return expandTanh(e, x); })
      .Case<math::ErfOp>([&](auto) { return expandErf(e, x); })
      .Case<math::PowFOp>([&](auto) { return expandPow(e, x, op->getOperand(1)); })
      .Case<math::RsqrtOp>([&](auto) { return expandRsqrt(e, x); });
}

void expandCircular(const MathEmitter &e, llvm::ArrayRef<Operation *> ops) {
  Value x = ops.front()->getOperand(0), sine, cosine;
  bool onlySin = llvm::all_of(ops, [](Operation *op) { return mlir::isa<math::SinOp>(op); });
  bool onlyCos = llvm::all_of(ops, [](Operation *op) { return mlir::isa<math::CosOp>(op); });
  if (onlySin)
    sine = expandSin(e, x);
  else if (onlyCos)
    cosine = expandCos(e, x);
  else
    std::tie(sine, cosine) = expandSinCos(e, x);
  for (Operation *op : ops) {
    if (mlir::isa<math::SincosOp>(op))
      op->replaceAllUsesWith(mlir::ValueRange{sine, cosine});
    else
      op->replaceAllUsesWith(mlir::ValueRange{mlir::isa<math::SinOp>(op) ? sine : cosine});
    op->erase();
  }
}

struct ExpandMathPass : mlir::PassWrapper<ExpandMathPass, mlir::OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMathPass)

  llvm::StringRef getArgument() const final { return "phi-expand-math"; }
  llvm::StringRef getDescription() const final { return "Expand math functions to arithmetic"; }
  void getDependentDialects(mlir::DialectRegistry &registry) const final {
    registry.insert<mlir::arith::ArithDialect, math::MathDialect>();
  }
  void runOnOperation() final { expandMath(getOperation()); }
};

} // namespace

void expandMath(Operation *root) {
  llvm::SmallVector<Operation *> others;
  Circular circular;
  root->walk([&](Operation *op) {
    if (op == root || !isExpanded(op))
      return;
    if (mlir::isa<math::SinOp, math::CosOp, math::SincosOp>(op))
      circular[{op->getOperand(0), op->getBlock()}].push_back(op);
    else
      others.push_back(op);
  });

  ConstantPool pool;
  mlir::OpBuilder builder(root->getContext());
  auto emitterAt = [&](Operation *op) {
    builder.setInsertionPoint(op);
    return MathEmitter(builder, op->getLoc(), op->getOperand(0).getType(), pool, entryBlock(op));
  };
  // Operands are read anew from the operations: a key of the map may be erased by then.
  for (auto &[key, ops] : circular)
    expandCircular(emitterAt(ops.front()), ops);
  for (Operation *op : others) {
    op->replaceAllUsesWith(mlir::ValueRange{expandOne(emitterAt(op), op)});
    op->erase();
  }
}

std::unique_ptr<mlir::Pass> createExpandMathPass() { return std::make_unique<ExpandMathPass>(); }

Value emitExp2Scaled(mlir::OpBuilder &builder, mlir::Location loc, Value f, Value a) {
  ConstantPool pool;
  return expandExp2Scaled(MathEmitter(builder, loc, f.getType(), pool, nullptr), f, a);
}

Value emitLdexp(mlir::OpBuilder &builder, mlir::Location loc, Value x, Value n) {
  ConstantPool pool;
  return expandLdexp(MathEmitter(builder, loc, x.getType(), pool, nullptr), x, n);
}

} // namespace yaglom::compiler
