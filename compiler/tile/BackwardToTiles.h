// The builder of a gradient's chunk loops: what its parts, loop by loop, share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/tile/Rows.h"
#include "compiler/tile/Scan.h"
#include "compiler/tile/ScanToTiles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace yaglom::compiler {

/// One op with a state: a scan whose result the formula still needs, or a half of a scan's gradient.
struct Stateful {
  mlir::Operation *op;
  bool isCausal;
  ScanState state;
};

/// The states of one scan that a forward launch kept, and memory for those of one segment, member by member.
struct KeptScan {
  ScanOperands scan;
  llvm::SmallVector<mlir::Value> states, segment;
};

/// Builds the tile program of one gradient, in place of `formula`.
class BackwardBuilder {
public:
  BackwardBuilder(mlir::func::FuncOp formula, const Schedule &schedule)
      : formula(formula), schedule(schedule), loc(formula.getLoc()), b(formula), prologue(formula.getContext()),
        epilogue(formula.getContext()) {}

  void build();

private:
  // BackwardToTiles.cpp
  void makeFunction();
  void collect();
  void findMask();
  void leaveOut(Rows &keys);
  mlir::Value validRows(mlir::Value first, mlir::Value count);
  Stateful *find(mlir::Operation *op);
  void keyLoop();
  void queryLoop();
  void reverseLoop();
  void storeRows(Side side, Rows &rowsOfSide);
  mlir::Value reversed(mlir::Value turn);
  mlir::Value lowerKeyOp(mlir::Operation *op, Rows &queries, Rows &keys);
  mlir::Value lowerQueryOp(mlir::Operation *op, Rows &queries, Rows &keys);
  void storeValues();
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value)>;
  void loop(mlir::Value count, llvm::ArrayRef<Stateful *> carried, llvm::ArrayRef<phi::TokenSumOp> sums, Body body);
  static llvm::SmallVector<Stateful *> those(llvm::MutableArrayRef<Stateful> ops, bool causal);
  static void readAll(llvm::ArrayRef<Stateful *> carried, Rows &keys);

  // KeptStates.cpp
  void sweep();
  void keepOperands(llvm::ArrayRef<mlir::Value> operands);
  void loadStates(llvm::function_ref<mlir::ValueRange(const KeptScan &)> from, mlir::Value item);
  void refill(mlir::Value segment, mlir::Value begin, mlir::Value end);

  mlir::func::FuncOp formula, program;
  Schedule schedule;
  mlir::Location loc;
  mlir::OpBuilder b;
  Prologue prologue, epilogue;
  mlir::Operation *anchor = nullptr; ///< the prologue ends here
  unsigned inputs = 0;               ///< arguments that gradients are made for
  mlir::Value rows, keyRows, position, segmentRows;
  mlir::Value keyMask; ///< of every attention, or null: a key that none of them sees has no gradient, whatever it holds
  llvm::StringRef takesStates;             ///< "", "segments" or "last"
  llvm::MapVector<int64_t, KeptScan> kept; ///< by the offset of the state
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>>
      results; ///< of the formula, and the operands they are stored to
  llvm::SmallVector<Stateful> scans, queryHalves, keyHalves, decays; ///< the state of a decay: one sum in float64
  llvm::SmallVector<phi::TokenSumOp> querySums, keySums;
  llvm::MapVector<mlir::Value, mlir::Value>
      between; ///< w, w0 and b: operands that carry them from the first loop to the second
};

/// The scan, or the half of a scan's gradient, that `op` is.
ScanOperands operandsOf(mlir::Operation *op);
/// How the gradient `function` takes states (kTakesStatesAttr), or "".
llvm::StringRef takenStates(mlir::func::FuncOp function);

} // namespace yaglom::compiler
