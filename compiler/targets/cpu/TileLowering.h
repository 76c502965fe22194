// The state of lowering one tile program: where its values live, and the code made so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/cpu/ClusterEmitter.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace yaglom::compiler::cpu {

/// An operand that is read and written by rows: its address, and how many elements lie between two rows.
struct RowOperand {
  mlir::Value base, stride; ///< !llvm.ptr, index
};

class TileLowering {
public:
  TileLowering(mlir::func::FuncOp program, const Machine &machine);
  int64_t run();

private:
  // Places.cpp: which value lives where.
  Place allocate(mlir::RankedTensorType type, unsigned lane, bool dense = false);
  Place placeOf(mlir::Value value);
  Place makePlace(mlir::Value value);
  std::optional<double> splatOf(mlir::Value value);
  void claimInserts(mlir::Block &block, const Clusters &clusters);
  void claim(mlir::Value value, const Place &place);
  llvm::DenseMap<mlir::Value, Place> turnOperands(const Cluster &cluster);
  bool mayOverwrite(mlir::Value old, mlir::Value next, const Clusters &clusters);
  bool isDeadAfter(mlir::Value value, mlir::Operation *op, const Clusters &clusters);
  bool isPrivate(mlir::Value value);
  void claimYields(mlir::ValueRange olds, mlir::ValueRange yields, llvm::ArrayRef<Place> places,
                   const Clusters &clusters);

  // TilesToCpu.cpp: the steps of a block.
  void bindArguments();
  void lowerBlock(mlir::Block &block, const Clusters &clusters);
  void lowerOp(mlir::Operation *op, const Clusters &clusters);
  void lowerFor(mlir::scf::ForOp op, const Clusters &clusters);
  void lowerStateIn(phi::StateInOp op, const Clusters &clusters);
  void lowerStateOut(phi::StateOutOp op);
  Place itemPlace(mlir::Value operand, mlir::Value item, mlir::RankedTensorType type);
  void storeTo(mlir::Value value, const Place &target);
  Place rowMajor(mlir::Value address, mlir::RankedTensorType type, int64_t offset);
  mlir::Value isGiven(mlir::Value address);
  void lowerWhile(mlir::scf::WhileOp op, const Clusters &clusters);
  void lowerIf(mlir::scf::IfOp op, const Clusters &clusters);
  Place carriedPlace(mlir::Value init, mlir::Value result, mlir::Operation *op, const Clusters &clusters);
  void settle(mlir::ValueRange yields, llvm::ArrayRef<Place> places);
  void fillPlace(const Place &place, double number);
  void copyPlace(const Place &from, const Place &to);
  std::vector<Prefetch> nextRows(mlir::Block &block);
  void forEachRow(const Place &place, llvm::function_ref<void(llvm::ArrayRef<Index>)> body);

  // RowCopies.cpp: between operands and tiles.
  void lowerLoad(phi::LoadRowsOp op);
  void lowerStore(phi::StoreRowsOp op);
  void loadScalars(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value valid);
  void loadRowMajor(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value valid);
  void loadTransposed(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value valid);
  void transposeBlock(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value row, mlir::Value column,
                      int64_t columns);
  mlir::Value joinVectors(llvm::SmallVector<mlir::Value> parts);
  mlir::Value rowAddress(const RowOperand &operand, mlir::Type element, mlir::Value row);

  mlir::Value constant(int64_t x) { return mlir::arith::ConstantIndexOp::create(b, loc, x); }

  mlir::func::FuncOp program, code;
  const Machine machine;
  Lanes lanes;
  mlir::OpBuilder b;
  mlir::Location loc;
  Memory memory;
  mlir::Value scratch, stateIn, stateOut; ///< addresses; the last two may be null
  int64_t scratchBytes = 0;
  mlir::IRMapping scalars;
  llvm::DenseMap<mlir::Value, Place> places, claims;
  llvm::DenseMap<mlir::Value, RowOperand> rowOperands;
};

} // namespace yaglom::compiler::cpu
