// The state of lowering one tile program for a GPU: one block of threads works on one item.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/TileLowering.h"
#include "compiler/targets/nvgpu/Device.h"
#include "compiler/targets/nvgpu/Fragments.h"
#include "compiler/targets/nvgpu/Room.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <vector>

namespace yaglom::compiler::nvgpu {

class GpuLowering final : TileLowering {
public:
  GpuLowering(mlir::func::FuncOp program, const Device &device, Products products);
  /// Puts the lowered function in place of the program. `without` holds the numbers of allocations that have no copy of 16-bit
  /// numbers. When a copy finds no room, its allocation joins them, and nothing is done: to be tried again.
  bool run(llvm::SmallDenseSet<size_t> &without);

private:
  // TilesToGpu.cpp: arguments, memory, and steps that copy.
  void bindArguments();
  void bindPart(mlir::Value item, mlir::Value part);
  void copyMatrices();
  bool isHalf() const { return products == Products::Half || products == Products::BFloat; }
  Place layout(mlir::RankedTensorType type, unsigned lane, bool dense) const;
  Place allocate(mlir::RankedTensorType type, unsigned lane, bool dense) override;
  unsigned laneOf(mlir::Value value) override;
  bool sumsProducts() const override { return false; }
  void beginStep() override { threads.barrier(); }
  void fillPlace(const Place &place, double number) override;
  void copyPlace(const Place &from, const Place &to) override;
  mlir::Value widened(mlir::Value x, mlir::Type element);
  mlir::Value narrowed(mlir::Value x, mlir::Type stored);
  using At = llvm::ArrayRef<mlir::Value>;
  mlir::Value load(const Place &place, At at);
  void store(mlir::Value value, const Place &place, At at);
  Place copyOf(const Place &place) const;

  // Parts.cpp: parts of an item, and states on the way.
  void keepStates(mlir::scf::ForOp op, llvm::ArrayRef<Place> carried);

  // Indices.cpp: constants apart.
  Index split(mlir::Value value);
  mlir::Value joined(Index index);
  mlir::Value entryAddress(const Place &place, At at);
  llvm::SmallVector<mlir::Value> unflatten(mlir::Value entry, llvm::ArrayRef<int64_t> extents);

  // Registers.cpp: entries that stay with one thread.
  /// What one warp computes at a time: blocks of 16 x 8 entries, the shape of an accumulator fragment.
  struct WarpTile {
    static constexpr int64_t kRows = 16, kColumns = 8, kEntries = 4;
    int64_t blockRows, blockColumns;
    int64_t rows() const { return blockRows * kRows; }
    int64_t columns() const { return blockColumns * kColumns; }
    int64_t entries() const { return blockRows * blockColumns * kEntries; } ///< of one thread
  };
  static constexpr int64_t kStraight = 16; ///< turns of a loop that become straight code
  void chooseDealt();
  bool isReadByEntries(mlir::Value value, llvm::SetVector<mlir::Value> &carried);
  bool isDealable(llvm::ArrayRef<int64_t> extents) const;
  bool isDealt(const Place &place) const;
  void overTiles(llvm::ArrayRef<int64_t> extents, const WarpTile &tile,
                 llvm::function_ref<void(mlir::Value, mlir::Value)> body);
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> entriesOf(const WarpTile &tile, mlir::Value row,
                                                              mlir::Value column);
  void overDealtEntries(llvm::ArrayRef<int64_t> extents, llvm::function_ref<void(At)> body);
  std::optional<int64_t> slotOf(const Place &place, At at) const;
  mlir::Value slotAddress(mlir::Value base, mlir::Type element, int64_t distance, int64_t slot);
  void moveToRegisters();

  // RowCopies.cpp: between operands and tiles.
  static constexpr int64_t kVectorBytes = 16; ///< what a thread copies at once
  void lowerLoad(phi::LoadRowsOp op) override;
  void lowerStore(phi::StoreRowsOp op) override;
  void lowerFetched(phi::LoadRowsOp op, const Place &rows);
  mlir::Value rowsAreAligned(mlir::Value operand, mlir::Value rowStride, mlir::Value columnStride);
  int64_t vectorOf(mlir::Value operand, const Place &tile) const;
  mlir::Value rowEntry(mlir::Value operand, mlir::Value row, mlir::Value column, bool isVector = false);
  mlir::Value loadOrZeros(mlir::Value operand, mlir::Value first, mlir::Value valid, At at, int64_t entries);
  void overRows(mlir::Value operand, const Place &tile, llvm::function_ref<void(At, int64_t)> body);
  void storeVector(mlir::Value numbers, const Place &to, At at);
  void storeWide(mlir::Value numbers, const Place &to, At at);

  // Stages.cpp: rows of the next turn of a loop, fetched while this one computes.
  struct Stage {
    phi::LoadRowsOp load;
    mlir::Value base; ///< of two buffers, one after the other
    Place place;      ///< of the first one
    int64_t bytes;    ///< of one
  };
  void beginLoop(mlir::scf::ForOp op) override;
  void beginTurn(mlir::scf::ForOp op, llvm::ArrayRef<Place> carried) override;
  bool isFetched(phi::LoadRowsOp load, mlir::scf::ForOp loop);
  std::optional<Stage> stageFor(phi::LoadRowsOp load);
  void fetch(mlir::scf::ForOp loop, mlir::Value turn, mlir::Value buffer);
  mlir::Value atTurn(mlir::Value value, mlir::scf::ForOp loop, mlir::IRMapping &map);
  mlir::Value bufferOf(const Stage &stage, mlir::Value buffer);

  // GpuClusters.cpp: entries over threads, sums over warps.
  using Values = llvm::DenseMap<mlir::Value, mlir::Value>;
  void lowerCluster(const Cluster &cluster) override;
  void setLocation(mlir::Location location) override {
    TileLowering::setLocation(location);
    threads.setLocation(location);
  }
  void makePlaces(const Cluster &cluster);
  void overEntries(llvm::ArrayRef<int64_t> extents, llvm::function_ref<void(At)> body);
  void emitEntries(const Cluster &cluster);
  void emitReductions(const Cluster &cluster);
  mlir::Value neutral(mlir::linalg::ReduceOp op);
  mlir::Value combine(mlir::linalg::ReduceOp op, mlir::Value running, mlir::Value next);
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value start, int64_t end, int64_t step, bool divides, mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body,
       int64_t straight = kStraight);
  /// Lanes of a warp that sum the terms of one entry together.
  struct Team {
    int lanes;
    bool areNeighbours;
    mlir::Value entry, part; ///< index: which of the warp's entries, and which of its lanes
  };
  Team teamFor(int64_t entries, bool termsAreNeighbours);
  mlir::Value acrossTeam(const Team &team, mlir::Value value,
                         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);
  void overTeams(llvm::ArrayRef<int64_t> extents, bool termsAreNeighbours,
                 llvm::function_ref<void(const Team &, At, mlir::Value)> body);
  llvm::SmallVector<mlir::Value>
  sumParts(const Team &team, int64_t terms, mlir::Value exists, mlir::ValueRange starts,
           llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> term);
  void ifFirst(const Team &team, mlir::Value exists, llvm::function_ref<void()> body);
  void emitBody(const Cluster &cluster, At at, Values &values);
  mlir::Value emitGeneric(mlir::linalg::GenericOp op, At at, const Values &values);
  mlir::Value emitFast(mlir::Operation &op, mlir::ValueRange operands); // FastMath.cpp
  mlir::Value read(mlir::Value tensor, mlir::AffineMap map, At at);
  void storeResults(const Cluster &cluster, llvm::ArrayRef<llvm::SmallVector<mlir::Value>> at,
                    llvm::ArrayRef<Values> values);

  // Products.cpp: contractions.
  /// Entry (i, j) of a contraction is the sum over k of left(i, k) right(j, k).
  struct Operands {
    mlir::Value left, right;
    bool isLeftByRows;     ///< its axes are (i, k), not (k, i)
    bool isRightByColumns; ///< its axes are (j, k), not (k, j)
    int64_t products;
  };
  std::optional<Operands> matricesOf(mlir::linalg::ContractOp op);
  bool isUnbounded(mlir::Value value);
  Products productsOf(mlir::linalg::ContractOp op);
  void emitDots(const Cluster &cluster);
  void emitMatrices(const Cluster &cluster);
  mlir::Value startOf(mlir::linalg::ContractOp op, At at, const Values &values, mlir::Value exists = {});
  WarpTile chooseTile(llvm::ArrayRef<int64_t> extents) const;
  void emitTile(const Cluster &cluster, const WarpTile &tile, mlir::Value row, mlir::Value column);
  bool hasBlocks(const Place &place) const;
  llvm::SmallVector<mlir::Value> loadBlocks(Fragments &fragments, const Place &place, bool isIndexFirst,
                                            mlir::Value index, mlir::Value product, bool isLeft);

  Device device;
  Threads threads;
  const Products products;
  mlir::Value kept;                                       ///< i64: the address of this item's kept states, or 0
  llvm::DenseMap<mlir::Value, mlir::Value> columnStrides; ///< of operands that are read by rows
  llvm::DenseMap<mlir::Value, mlir::Value> isAligned;     ///< whether whole vectors of their rows may be read: i1
  llvm::DenseMap<mlir::Value, mlir::Type> stored;         ///< their elements in memory
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Stage>> stages; ///< of the loops that fetch ahead
  llvm::DenseMap<mlir::Operation *, Place> fetched;                   ///< of loads: where their rows are in this turn
  llvm::DenseMap<mlir::Value, bool> unbounded;                        ///< isUnbounded(), as far as asked
  Allocations allocations;
  llvm::DenseMap<mlir::Value, mlir::Value>
      copies; ///< of an allocation, by its base: 16-bit numbers at the same indices
  const llvm::SmallDenseSet<size_t> *withoutCopy = nullptr;
  llvm::DenseMap<mlir::Value, Index> splits;                  ///< split(), as far as asked
  std::map<std::vector<const void *>, mlir::Value> addresses; ///< entryAddress() but for constants, as far as asked
  llvm::SetVector<mlir::Value> dealt; ///< values of the program whose entries stay with one thread each
  llvm::SmallVector<int64_t> slotsOf; ///< extents of the tile that is being dealt; empty where it cannot be
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, int64_t>
      slots;                                   ///< by row and column: the number of this thread's entry
  llvm::DenseMap<mlir::Value, size_t> numbers; ///< of the allocations that copies belong to
  size_t made = 0;                             ///< allocations of tensors so far
};

} // namespace yaglom::compiler::nvgpu
