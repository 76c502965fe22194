// The state of lowering one tile program, as far as targets share it: where values live, and the steps in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/Clusters.h"
#include "compiler/lower/Memory.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

#include <optional>

namespace yaglom::compiler {

/// An operand that is read and written by rows: its address, and how many elements lie between two rows.
struct RowOperand {
  mlir::Value base, stride; ///< !llvm.ptr, index
};

/// Control flow is the same for every target: tensors are carried by their places, a value that ends as part of another is
/// made there. A target says what memory looks like and how a cluster is computed.
class TileLowering {
protected:
  explicit TileLowering(mlir::func::FuncOp program)
      : program(program), b(program), loc(program.getLoc()), memory(b, loc) {}
  ~TileLowering() = default;

  // What a target supplies. Steps come in program order; each sees what the ones before it wrote.
  /// Memory for a tensor, its axis `lane` innermost; whole vectors may be written past its end unless it is `dense`.
  virtual Place allocate(mlir::RankedTensorType type, unsigned lane, bool dense = false) = 0;
  /// The axis of a value that is innermost in memory.
  virtual unsigned laneOf(mlir::Value value) = 0;
  virtual void fillPlace(const Place &place, double number) = 0;
  virtual void copyPlace(const Place &from, const Place &to) = 0;
  virtual void lowerCluster(const Cluster &cluster) = 0;
  /// Where the next step comes from.
  virtual void setLocation(mlir::Location location) {
    loc = location;
    memory.setLocation(location);
  }
  virtual void lowerLoad(phi::LoadRowsOp op) = 0;
  virtual void lowerStore(phi::StoreRowsOp op) = 0;
  /// Whether a cluster may sum its contractions' entries (Clusters).
  virtual bool sumsProducts() const { return true; }
  /// Before a loop, and at the start of its body; what it carries is at `carried`.
  virtual void beginLoop(mlir::scf::ForOp) {}
  virtual void beginTurn(mlir::scf::ForOp, [[maybe_unused]] llvm::ArrayRef<Place> carried) {}
  /// Before the steps of a block.
  virtual void beginBlock(mlir::Block &, const Clusters &) {}
  /// Before a step that reads memory itself.
  virtual void beginStep() {}

  // Places.cpp: which value lives where.
  Place placeOf(mlir::Value value);
  Place makePlace(mlir::Value value);
  std::optional<double> splatOf(mlir::Value value);
  void claimInserts(mlir::Block &block, const Clusters &clusters);
  void claim(mlir::Value value, const Place &place);
  bool mayOverwrite(mlir::Value old, mlir::Value next, const Clusters &clusters);
  bool isDeadAfter(mlir::Value value, mlir::Operation *op, const Clusters &clusters);
  bool isPrivate(mlir::Value value);
  void claimYields(mlir::ValueRange olds, mlir::ValueRange yields, llvm::ArrayRef<Place> places,
                   const Clusters &clusters);

  // Steps.cpp: the steps of a block.
  void lowerBlock(mlir::Block &block, const Clusters &clusters);
  void lowerOp(mlir::Operation *op, const Clusters &clusters);
  void lowerFor(mlir::scf::ForOp op, const Clusters &clusters);
  void lowerStateIn(phi::StateInOp op, const Clusters &clusters);
  void lowerStateOut(phi::StateOutOp op);
  Place rowMajor(mlir::Value address, mlir::RankedTensorType type, int64_t offset);
  mlir::Value isGiven(mlir::Value address);
  void lowerWhile(mlir::scf::WhileOp op, const Clusters &clusters);
  void lowerIf(mlir::scf::IfOp op, const Clusters &clusters);
  Place carriedPlace(mlir::Value init, mlir::Value result, mlir::Operation *op, const Clusters &clusters);
  void settle(mlir::ValueRange yields, llvm::ArrayRef<Place> places);
  mlir::Value rowAddress(const RowOperand &operand, mlir::Type element, mlir::Value row);
  Place itemPlace(mlir::Value operand, mlir::Value item, mlir::RankedTensorType type);
  void storeTo(mlir::Value value, const Place &target);

  mlir::Value constant(int64_t x) { return mlir::arith::ConstantIndexOp::create(b, loc, x); }

  mlir::func::FuncOp program, code;
  mlir::OpBuilder b;
  mlir::Location loc;
  Memory memory;
  mlir::Value stateIn, stateOut; ///< addresses, or null
  mlir::IRMapping scalars;
  llvm::DenseMap<mlir::Value, Place> places, claims;
  llvm::DenseMap<mlir::Value, RowOperand> rowOperands;
};

} // namespace yaglom::compiler
