// The state of lowering one tile program for a processor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/TileLowering.h"
#include "compiler/targets/cpu/ClusterEmitter.h"

namespace yaglom::compiler::cpu {

class CpuLowering final : TileLowering {
public:
  CpuLowering(mlir::func::FuncOp program, const Machine &machine);
  int64_t run();

private:
  // TilesToCpu.cpp
  void bindArguments();
  void beginBlock(mlir::Block &block, const Clusters &clusters) override;
  void lowerCluster(const Cluster &cluster) override;
  Place allocate(mlir::RankedTensorType type, unsigned lane, bool dense) override;
  unsigned laneOf(mlir::Value value) override { return lanes.of(value); }
  void fillPlace(const Place &place, double number) override;
  void copyPlace(const Place &from, const Place &to) override;
  llvm::DenseMap<mlir::Value, Place> turnOperands(const Cluster &cluster);
  std::vector<Prefetch> nextRows(mlir::Block &block);
  void forEachRow(const Place &place, llvm::function_ref<void(llvm::ArrayRef<Index>)> body);

  // RowCopies.cpp: between operands and tiles.
  void lowerLoad(phi::LoadRowsOp op) override;
  void lowerStore(phi::StoreRowsOp op) override;
  void loadScalars(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value valid);
  void loadRowMajor(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value valid);
  void loadTransposed(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value valid);
  void transposeBlock(const RowOperand &from, const Place &to, mlir::Value first, mlir::Value row, mlir::Value column,
                      int64_t columns);
  mlir::Value joinVectors(llvm::SmallVector<mlir::Value> parts);

  const Machine machine;
  Lanes lanes;
  mlir::Value scratch; ///< an address
  int64_t scratchBytes = 0;
  llvm::DenseMap<mlir::Operation *, std::vector<Prefetch>> prefetches; ///< beside the cluster that begins with this op
};

} // namespace yaglom::compiler::cpu
