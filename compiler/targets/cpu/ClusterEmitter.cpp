// Loop nests of clusters: which loops there are, and what a register tile reads and writes.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/ClusterEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace yaglom::compiler::cpu {

ClusterEmitter::ClusterEmitter(const Cluster &cluster, OpBuilder &builder, Location loc, const Machine &machine,
                               Lanes &lanes, Surroundings &around)
    : cluster(cluster), b(builder), loc(loc), machine(machine), around(around), memory(builder, loc) {
  chooseDimensions(lanes);
  chooseTile();
  at.resize(cluster.extents.size());
}

void ClusterEmitter::chooseDimensions(Lanes &lanes) {
  int rank = cluster.extents.size();
  if (rank == 0)
    return;
  Operation *first = cluster.ops.front();
  if (auto contract = dyn_cast<linalg::ContractOp>(first))
    laneDim = lanes.ofContraction(contract);
  else
    laneDim = lanes.of(isa<linalg::ReduceOp>(first) ? first->getOperand(0) : first->getResult(0));
  for (int dim = 0; dim < rank; ++dim)
    if (dim != laneDim)
      rowDim = dim;
  // Sums are carried by the loops over a tile's own dimensions.
  if (cluster.reduced >= 0 && cluster.reduced != laneDim)
    rowDim = cluster.reduced;
}

/// Tiles fill the registers without spilling; a size that divides the extent leaves no smaller tile behind.
void ClusterEmitter::chooseTile() {
  if (laneDim < 0)
    return;
  Type element = getElementTypeOrSelf(cluster.ops.front()->getResult(0));
  int64_t width = machine.lanes(element.getIntOrFloatBitWidth() / 8);
  int64_t padded = llvm::alignTo(cluster.extents[laneDim], machine.vectorBytes / 4);
  int64_t vectors = machine.tileVectors;
  while (padded % (vectors * width))
    vectors /= 2;
  L = vectors * width;
  if (rowDim < 0)
    return;
  int64_t products = 0;
  for (linalg::ContractOp op : cluster.contractions()) {
    Value init = accumulatorOf(op);
    products += !(init && init.getDefiningOp() && cluster.contains(init.getDefiningOp()));
  }
  int64_t budget = products ? std::max<int64_t>(1, machine.accumulators / (vectors * products))
                            : std::max<int64_t>(1, machine.pointwiseVectors / vectors);
  int64_t rows = cluster.extents[rowDim];
  R = std::min(budget, rows);
  for (int64_t divisor = R; 2 * divisor > budget; --divisor)
    if (rows % divisor == 0) {
      R = divisor;
      break;
    }
}

void ClusterEmitter::emit() { overOuter(0); }

void ClusterEmitter::overOuter(int dim) {
  while (dim < int(cluster.extents.size()) && (dim == laneDim || dim == rowDim))
    ++dim;
  if (dim < int(cluster.extents.size())) {
    loop(0, cluster.extents[dim], 1, {}, [&](Index index) {
      at[dim] = index;
      overOuter(dim + 1);
    });
    return;
  }
  if (cluster.reduced >= 0 && cluster.reduced == laneDim)
    rowsThenLanes();
  else
    lanesThenRows();
}

/// A loop that carries the sums; one step needs no loop.
void ClusterEmitter::loop(int64_t begin, int64_t end, int64_t step, llvm::MutableArrayRef<Sum> sums,
                          llvm::function_ref<void(Index)> body) {
  if (end - begin <= step)
    return begin < end ? body({{}, begin}) : void();
  auto constant = [&](int64_t x) -> Value { return arith::ConstantIndexOp::create(b, loc, x); };
  llvm::SmallVector<Value> inits;
  for (Sum &sum : sums)
    inits.push_back(sum.carried);
  auto op = scf::ForOp::create(b, loc, constant(begin), constant(end), constant(step), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.getBody());
  for (auto [sum, argument] : llvm::zip(sums, op.getRegionIterArgs()))
    sum.carried = argument;
  body({op.getInductionVar(), 0});
  if (!sums.empty()) {
    llvm::SmallVector<Value> yields;
    for (Sum &sum : sums)
      yields.push_back(sum.carried);
    scf::YieldOp::create(b, loc, yields);
  }
  for (auto [sum, result] : llvm::zip(sums, op.getResults()))
    sum.carried = result;
}

/// Whole blocks of lanes in a loop, then the one that is not full, whose place is known.
void ClusterEmitter::overLaneBlocks(llvm::MutableArrayRef<Sum> sums, llvm::function_ref<void()> body) {
  if (laneDim < 0)
    return body();
  int64_t extent = cluster.extents[laneDim], full = extent / L * L;
  auto block = [&](Index index) {
    at[laneDim] = index;
    body();
  };
  loop(0, full, L, sums, block);
  if (full < extent)
    block({{}, full});
}

void ClusterEmitter::overRowBlocks(llvm::MutableArrayRef<Sum> sums, llvm::function_ref<void()> body) {
  if (rowDim < 0) {
    height = 1;
    return body();
  }
  int64_t extent = cluster.extents[rowDim], full = extent / R * R;
  auto block = [&](Index index) {
    at[rowDim] = index;
    body();
  };
  height = R;
  loop(0, full, R, sums, block);
  height = extent - full;
  if (height > 0)
    block({{}, full});
}

void ClusterEmitter::lanesThenRows() {
  overLaneBlocks({}, [&] {
    llvm::SmallVector<Sum> sums = startSums(1);
    overRowBlocks(sums, [&] { tile(sums); });
    for (Sum &sum : sums)
      finish(sum);
  });
}

void ClusterEmitter::rowsThenLanes() {
  overRowBlocks({}, [&] {
    llvm::SmallVector<Sum> sums = startSums(height);
    overLaneBlocks(sums, [&] { tile(sums); });
    for (Sum &sum : sums)
      finish(sum);
  });
}

int64_t ClusterEmitter::validLanes() const {
  if (laneDim < 0 || at[laneDim].value)
    return L;
  return std::min(L, cluster.extents[laneDim] - at[laneDim].constant);
}

void ClusterEmitter::locate(Operation *op) {
  loc = op->getLoc();
  memory.setLocation(loc);
}

/// Reads come before writes: a place may be updated entry by entry.
void ClusterEmitter::tile(llvm::MutableArrayRef<Sum> sums) {
  tiles.clear();
  loaded.clear();
  prefetch();
  emitContractions();
  size_t next = 0;
  for (Operation *op : cluster.ops) {
    locate(op);
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      tiles[generic.getResult(0)] = emitGeneric(generic);
    else if (isa<linalg::ReduceOp>(op))
      accumulate(sums[next++]);
  }
  for (Operation *op : cluster.ops)
    if (Value result = op->getResult(0); !isa<linalg::ReduceOp>(op) && around.isStored(result)) {
      locate(op);
      write(result, tiles[result]);
    }
}

/// This tile's share of the lines that the next chunk will read: spread over the tiles, they hide behind arithmetic.
void ClusterEmitter::prefetch() {
  if (around.prefetches.empty() || rowDim < 0 || laneDim < 0 || !at[rowDim].value)
    return;
  auto constant = [&](int64_t x) -> Value { return arith::ConstantIndexOp::create(b, loc, x); };
  auto asValue = [&](Index index) -> Value { return index.value ? index.value : constant(index.constant); };
  int64_t rowTiles = cluster.extents[rowDim] / R, laneTiles = std::max<int64_t>(1, cluster.extents[laneDim] / L);
  Value number = arith::DivUIOp::create(b, loc, asValue(at[rowDim]), constant(R));
  if (laneTiles > 1) {
    Value block = arith::DivUIOp::create(b, loc, asValue(at[laneDim]), constant(L));
    number = arith::AddIOp::create(b, loc, number, arith::MulIOp::create(b, loc, block, constant(rowTiles)));
  }
  constexpr int64_t kLine = 64;
  for (const Prefetch &rows : around.prefetches) {
    int64_t bytes = rows.element.getIntOrFloatBitWidth() / 8, linesOfRow = llvm::divideCeil(rows.width * bytes, kLine);
    int64_t share = llvm::divideCeil(rows.rows * linesOfRow, rowTiles * laneTiles);
    for (int64_t i = 0; i < share; ++i) {
      Value line = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, number, constant(share)), constant(i));
      Value row = arith::DivUIOp::create(b, loc, line, constant(linesOfRow));
      Value column = arith::RemUIOp::create(b, loc, line, constant(linesOfRow));
      row = arith::MulIOp::create(b, loc, arith::AddIOp::create(b, loc, row, rows.first), rows.stride);
      Value entry = arith::AddIOp::create(b, loc, row, arith::MulIOp::create(b, loc, column, constant(kLine / bytes)));
      memory.prefetch(memory.move(rows.base, rows.element, arith::IndexCastOp::create(b, loc, b.getI64Type(), entry)));
    }
  }
}

VectorType ClusterEmitter::vectorType(int64_t rows, int64_t lanes, Type element) {
  return VectorType::get({rows, lanes}, element);
}

ClusterEmitter::Tile ClusterEmitter::widen(Tile value, int64_t rows, int64_t lanes) {
  auto type = cast<VectorType>(value.getType());
  auto wide = vectorType(rows, lanes, type.getElementType());
  return type == wide ? value : vector::BroadcastOp::create(b, loc, wide, value).getResult();
}

/// Where the tile's entry (row, lane) lies for an operand with this indexing map; the first dimension summed over is k.
llvm::SmallVector<Index> ClusterEmitter::indicesAt(AffineMap map, int64_t row, Index k) {
  llvm::SmallVector<Index> indices;
  for (unsigned i = 0; i < map.getNumResults(); ++i) {
    int dim = map.getDimPosition(i);
    if (dim >= int(cluster.extents.size()))
      indices.push_back(k);
    else
      indices.push_back(dim == rowDim ? at[dim] + row : at[dim]);
  }
  return indices;
}

static int axisOf(AffineMap map, int dim) {
  for (unsigned i = 0; i < map.getNumResults(); ++i)
    if (int(map.getDimPosition(i)) == dim)
      return i;
  return -1;
}

/// L neighbours along the lanes; where they are not neighbours in memory, one by one.
Value ClusterEmitter::readLanes(const Place &place, AffineMap map, llvm::ArrayRef<Index> indices) {
  int axis = axisOf(map, laneDim);
  Value address = memory.address(place, indices);
  int64_t valid = validLanes();
  if (place.isDense(axis) && (place.padded || valid == L))
    return memory.loadVector(address, place.element, L, L);
  if (place.isDense(axis))
    return memory.loadVector(address, place.element, L, valid);
  auto type = VectorType::get({L}, place.element);
  Value vector = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  for (int64_t l = 0; l < valid; ++l) {
    Value entry = memory.load(memory.move(address, place.element, l * place.strides[axis]), place.element);
    vector = vector::InsertOp::create(b, loc, entry, vector, llvm::ArrayRef<int64_t>{l});
  }
  return vector;
}

ClusterEmitter::Tile ClusterEmitter::read(Value operand, AffineMap map) {
  auto [it, isNew] = loaded.try_emplace({operand, map});
  if (!isNew)
    return it->second;
  Tile result = readNew(operand, map);
  return loaded[{operand, map}] = result;
}

ClusterEmitter::Tile ClusterEmitter::readNew(Value operand, AffineMap map) {
  Type element = getElementTypeOrSelf(operand);
  if (std::optional<double> number = around.splat(operand)) {
    auto type = vectorType(1, 1, element);
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, Attribute(FloatAttr::get(element, *number))));
  }
  Place place = around.place(operand);
  bool alongRows = rowDim >= 0 && axisOf(map, rowDim) >= 0, alongLanes = laneDim >= 0 && axisOf(map, laneDim) >= 0;
  int64_t rows = alongRows ? height : 1;
  auto type = vectorType(rows, alongLanes ? L : 1, element);
  Value value = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  for (int64_t r = 0; r < rows; ++r) {
    llvm::SmallVector<Index> indices = indicesAt(map, r, {});
    if (alongLanes) {
      value = vector::InsertOp::create(b, loc, readLanes(place, map, indices), value, llvm::ArrayRef<int64_t>{r});
      continue;
    }
    Value entry = memory.load(memory.address(place, indices), element);
    value = vector::InsertOp::create(b, loc, entry, value, llvm::ArrayRef<int64_t>{r, 0});
  }
  return value;
}

void ClusterEmitter::writeLanes(Value row, const Place &place, int axis, Value address) {
  int64_t valid = validLanes();
  if (place.isDense(axis))
    return memory.storeVector(row, address, place.padded ? L : valid);
  for (int64_t l = 0; l < valid; ++l) {
    Value entry = vector::ExtractOp::create(b, loc, row, llvm::ArrayRef<int64_t>{l});
    memory.store(entry, memory.move(address, place.element, l * place.strides[axis]));
  }
}

void ClusterEmitter::write(Value value, Tile tile) {
  Place place = around.place(value);
  tile = widen(tile, height, L);
  AffineMap map = b.getMultiDimIdentityMap(cluster.extents.size());
  for (int64_t r = 0; r < height; ++r) {
    Value address = memory.address(place, indicesAt(map, r, {}));
    if (laneDim < 0) {
      memory.store(vector::ExtractOp::create(b, loc, tile, llvm::ArrayRef<int64_t>{r, 0}), address);
      continue;
    }
    writeLanes(vector::ExtractOp::create(b, loc, tile, llvm::ArrayRef<int64_t>{r}), place, laneDim, address);
  }
}

} // namespace yaglom::compiler::cpu
