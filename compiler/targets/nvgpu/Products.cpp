// Contractions: matrix tiles by warps, dot products for everything that is no product of two matrices.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/GpuLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <numeric>

using namespace mlir;

namespace yaglom::compiler::nvgpu {

static int axisOf(AffineMap map, unsigned dim) {
  for (unsigned i = 0; i < map.getNumResults(); ++i)
    if (map.getDimPosition(i) == dim)
      return i;
  return -1;
}

std::optional<GpuLowering::Operands> GpuLowering::matricesOf(linalg::ContractOp op) {
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  constexpr unsigned kProducts = 2;
  for (unsigned left : {0, 1}) {
    AffineMap l = maps[left], r = maps[1 - left];
    if (l.getNumResults() != 2 || r.getNumResults() != 2 || axisOf(l, 0) < 0 || axisOf(r, 1) < 0)
      continue;
    int k = axisOf(l, kProducts);
    if (k < 0 || axisOf(r, kProducts) < 0)
      continue;
    Value operand = op.getInputs()[left];
    return Operands{operand, op.getInputs()[1 - left], axisOf(l, 0) == 0, axisOf(r, 1) == 0,
                    cast<RankedTensorType>(operand.getType()).getDimSize(k)};
  }
  return std::nullopt;
}

/// What an entry's sum begins with. Nothing is read where `exists`, unless null, is false.
Value GpuLowering::startOf(linalg::ContractOp op, At at, const Values &values, Value exists) {
  Value init = accumulatorOf(op);
  auto zero = [&] {
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(getElementTypeOrSelf(op->getResult(0)))).getResult();
  };
  if (!init)
    return zero();
  if (Value known = values.lookup(init))
    return known;
  auto start = [&] { return read(init, op.getIndexingMapsArray()[2], at); };
  if (!exists)
    return start();
  return scf::IfOp::create(
             b, loc, exists, [&](OpBuilder &, Location) { scf::YieldOp::create(b, loc, start()); },
             [&](OpBuilder &, Location) { scf::YieldOp::create(b, loc, zero()); })
      .getResult(0);
}

/// A team of lanes for each entry.
void GpuLowering::emitDots(const Cluster &cluster) {
  linalg::ContractOp first = cluster.contractions().front();
  AffineMap map = first.getIndexingMapsArray()[0];
  const unsigned dim = cluster.extents.size();
  const bool termsAreNeighbours = axisOf(map, dim) + 1 == int(map.getNumResults());
  overTeams(cluster.extents, termsAreNeighbours, [&](const Team &team, At at, Value exists) {
    Values values;
    llvm::SmallVector<std::pair<Value, Value>> sums;
    for (linalg::ContractOp op : cluster.contractions()) {
      llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
      Value left = op.getInputs()[0], right = op.getInputs()[1];
      Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(getElementTypeOrSelf(left)));
      int64_t terms = cast<RankedTensorType>(left.getType()).getDimSize(axisOf(maps[0], dim));
      Value part = sumParts(team, terms, exists, zero, [&](Value term, ValueRange running) {
        llvm::SmallVector<Value> here(at);
        here.push_back(term);
        Value next = math::FmaOp::create(b, loc, read(left, maps[0], here), read(right, maps[1], here), running[0]);
        return llvm::SmallVector<Value>{next};
      })[0];
      auto add = [&](Value x, Value y) { return arith::AddFOp::create(b, loc, x, y).getResult(); };
      sums.push_back({op->getResult(0), acrossTeam(team, part, add)});
    }
    // One lane goes on: what it reads it may also write.
    ifFirst(team, exists, [&] {
      for (auto [op, sum] : llvm::zip(cluster.contractions(), sums))
        values[sum.first] = arith::AddFOp::create(b, loc, startOf(op, at, values), sum.second);
      emitBody(cluster, at, values);
      storeResults(cluster, {llvm::SmallVector<Value>(at)}, {values});
    });
  });
}

/// The largest tile of which every warp gets one; a fragment of the left side serves all columns, one of the right all rows.
/// Where no tile divides the result, small ones waste least.
GpuLowering::WarpTile GpuLowering::chooseTile(llvm::ArrayRef<int64_t> extents) const {
  for (WarpTile tile : {WarpTile{2, 4}, {2, 2}, {1, 4}, {1, 2}})
    if (extents[0] % tile.rows() == 0 && extents[1] % tile.columns() == 0 &&
        extents[0] / tile.rows() * (extents[1] / tile.columns()) >= device.warps())
      return tile;
  return extents[1] % WarpTile{1, 2}.columns() == 0 ? WarpTile{1, 2} : WarpTile{1, 1};
}

void GpuLowering::emitMatrices(const Cluster &cluster) {
  const WarpTile tile = chooseTile(cluster.extents);
  overTiles(cluster.extents, tile, [&](Value row, Value column) { emitTile(cluster, tile, row, column); });
}

/// Whether nothing keeps a value's numbers in the range of float16: sums over many tokens, and what is scaled by powers of two
/// or made from such values. Within a chunk scaled features and their products span the range of float32 (Schedule::range), and
/// so do rows that one sweep leaves in float32 for another.
bool GpuLowering::isUnbounded(Value value) {
  auto [known, isNew] = unbounded.try_emplace(value, false);
  if (!isNew)
    return known->second;
  Operation *op = value.getDefiningOp();
  bool result = false;
  if (!op) {
    result = !isa<func::FuncOp>(value.getParentBlock()->getParentOp());
  } else if (isa<phi::LoadItemOp, phi::StateInOp, scf::ForOp, scf::IfOp, scf::WhileOp>(op)) {
    result = true;
  } else if (auto rows = dyn_cast<phi::LoadRowsOp>(op)) {
    result = stored.lookup(rows.getSource()).isF32();
  } else if (!isa<linalg::FillOp, tensor::EmptyOp>(op)) {
    op->walk([&](Operation *inner) { result |= isa<phi::Exp2ScaledOp, phi::LdexpOp>(inner); });
    for (Value operand : op->getOperands())
      result |= isa<RankedTensorType>(operand.getType()) && isUnbounded(operand);
  }
  unbounded[value] = result;
  return result;
}

Products GpuLowering::productsOf(linalg::ContractOp op) {
  if (getElementTypeOrSelf(op->getResult(0)).isF64())
    return Products::Exact;
  if (products == Products::Half && llvm::any_of(op.getInputs(), [&](Value x) { return isUnbounded(x); }))
    return Products::Tf32;
  return products;
}

void GpuLowering::emitTile(const Cluster &cluster, const WarpTile &tile, Value row, Value column) {
  const int64_t rows = cluster.extents[0], columns = cluster.extents[1];
  const bool isWhole = rows % tile.rows() == 0 && columns % tile.columns() == 0;
  auto plus = [&](Value x, Value y) { return arith::AddIOp::create(b, loc, x, y).getResult(); };
  auto less = [&](Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, constant(y)).getResult();
  };
  // Operands past the end are taken from an entry that exists; what they give is not stored.
  auto within = [&](Value index, int64_t extent, int64_t step) {
    return extent % step == 0 ? index
                              : arith::SelectOp::create(b, loc, less(index, extent), index, constant(0)).getResult();
  };
  const llvm::SmallVector<llvm::SmallVector<Value>> at = entriesOf(tile, row, column);
  // An entry may be written where it is read, so only its own thread reads it.
  auto exists = [&](At entry) -> Value {
    return isWhole ? Value() : arith::AndIOp::create(b, loc, less(entry[0], rows), less(entry[1], columns)).getResult();
  };
  std::vector<Values> values(tile.entries());
  for (linalg::ContractOp op : cluster.contractions()) {
    Operands operands = *matricesOf(op);
    Fragments fragments(b, loc, threads, productsOf(op));
    Place left = placeOf(operands.left), right = placeOf(operands.right);
    llvm::SmallVector<Value> sums;
    for (auto [entry, known] : llvm::zip(at, values))
      sums.push_back(startOf(op, entry, known, exists(entry)));
    // An entry at distances from the tile's first; 0 past the last product.
    auto readFrom = [&](const Place &place, bool isIndexFirst, Value start, int64_t distance, int64_t extent,
                        int64_t step, Value k, bool isLast) {
      return [&, isIndexFirst, start, distance, extent, step, k, isLast](Value index, Value product) -> Value {
        index = within(plus(plus(start, constant(distance)), index), extent, step);
        product = plus(k, product);
        Value exists = isLast ? less(product, operands.products) : Value();
        if (exists)
          product = arith::SelectOp::create(b, loc, exists, product, constant(0));
        Value entry = load(place, isIndexFirst ? At{index, product} : At{product, index});
        if (!exists)
          return entry;
        Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(entry.getType()));
        return arith::SelectOp::create(b, loc, exists, entry, zero);
      };
    };
    auto step = [&](Value k, bool isLast) {
      llvm::SmallVector<Fragments::Operand> lefts, rights;
      const bool blocksOfLeft = fragments.isHalf() && !isLast && rows % tile.rows() == 0 && hasBlocks(left);
      const bool blocksOfRight = fragments.isHalf() && !isLast && columns % tile.columns() == 0 &&
                                 tile.blockColumns % 2 == 0 && hasBlocks(right);
      for (int64_t m = 0; m < tile.blockRows; ++m) {
        int64_t distance = m * WarpTile::kRows;
        if (blocksOfLeft)
          lefts.push_back(Fragments::packed(
              loadBlocks(fragments, left, operands.isLeftByRows, plus(row, constant(distance)), k, /*isLeft=*/true)));
        else
          lefts.push_back(
              fragments.left(readFrom(left, operands.isLeftByRows, row, distance, rows, tile.rows(), k, isLast)));
      }
      for (int64_t n = 0; n < tile.blockColumns; ++n) {
        int64_t distance = n * WarpTile::kColumns;
        if (!blocksOfRight) {
          rights.push_back(fragments.right(
              readFrom(right, operands.isRightByColumns, column, distance, columns, tile.columns(), k, isLast)));
          continue;
        }
        llvm::SmallVector<Value> two = loadBlocks(fragments, right, operands.isRightByColumns,
                                                  plus(column, constant(distance)), k, /*isLeft=*/false);
        rights.push_back(Fragments::packed(llvm::ArrayRef(two).take_front(2)));
        rights.push_back(Fragments::packed(llvm::ArrayRef(two).drop_front(2)));
        ++n;
      }
      for (int64_t m = 0; m < tile.blockRows; ++m)
        for (int64_t n = 0; n < tile.blockColumns; ++n)
          fragments.multiply(lefts[m], rights[n],
                             llvm::MutableArrayRef<Value>(sums).slice((m * tile.blockColumns + n) * WarpTile::kEntries,
                                                                      WarpTile::kEntries));
    };
    int64_t whole = operands.products / fragments.depth() * fragments.depth();
    // Of float32, ptxas would read the operands of all steps ahead of their products, and spill.
    const int64_t straight = fragments.isHalf() ? kStraight : 2;
    auto next = [&](Value k, ValueRange running) {
      sums.assign(running.begin(), running.end());
      step(k, false);
      return sums;
    };
    if (whole)
      sums = loop(constant(0), whole, fragments.depth(), true, sums, next, straight);
    if (whole < operands.products)
      step(constant(whole), true);
    for (auto [known, sum] : llvm::zip(values, sums))
      known[op->getResult(0)] = sum;
  }
  if (isWhole) {
    for (auto [entry, known] : llvm::zip(at, values))
      emitBody(cluster, entry, known);
    return storeResults(cluster, at, values);
  }
  for (auto [entry, known] : llvm::zip(at, values)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(scf::IfOp::create(b, loc, exists(entry), /*withElseRegion=*/false).thenYield());
    emitBody(cluster, entry, known);
    storeResults(cluster, {entry}, {known});
  }
}

/// Whether 8 x 8 blocks of a place can be loaded at once: it has a copy of 16-bit numbers whose rows begin at multiples of 16
/// bytes, and nothing of a block lies past its end.
bool GpuLowering::hasBlocks(const Place &place) const {
  constexpr int64_t kBlock = 8;
  if (!copies.contains(place.base) || place.offset % kBlock || place.sizes.size() != 2)
    return false;
  unsigned inner = place.strides[1] == 1 ? 1 : 0;
  return place.strides[inner] == 1 && place.strides[1 - inner] % kBlock == 0 && place.sizes[0] % kBlock == 0 &&
         place.sizes[1] % kBlock == 0;
}

/// Four blocks: of the left side a tile of 16 rows x 16 products, of the right side two of 16 products x 8 columns.
llvm::SmallVector<Value> GpuLowering::loadBlocks(Fragments &fragments, const Place &place, bool isIndexFirst,
                                                 Value index, Value product, bool isLeft) {
  auto plus = [&](Value x, Value y) { return arith::AddIOp::create(b, loc, x, y).getResult(); };
  auto times = [&](Value x, int64_t y) { return arith::MulIOp::create(b, loc, x, constant(y)).getResult(); };
  // Lane l names row l % 8 of block l / 8. The blocks of the left side go down first, those of the right along the products.
  Value inBlock = arith::RemUIOp::create(b, loc, threads.lane, constant(8));
  Value block = arith::DivUIOp::create(b, loc, threads.lane, constant(8));
  Value fast = times(arith::RemUIOp::create(b, loc, block, constant(2)), 8);
  Value slow = times(arith::DivUIOp::create(b, loc, block, constant(2)), 8);
  Value alongIndex = isLeft ? fast : slow, alongProduct = isLeft ? slow : fast;
  // A row of a block in memory lies along the axis with stride 1.
  bool productsInside = place.strides[isIndexFirst ? 1 : 0] == 1;
  index = plus(index, productsInside ? plus(alongIndex, inBlock) : alongIndex);
  product = plus(product, productsInside ? alongProduct : plus(alongProduct, inBlock));
  Place copy = copyOf(place);
  return fragments.loadBlocks(entryAddress(copy, isIndexFirst ? At{index, product} : At{product, index}),
                              !productsInside);
}

} // namespace yaglom::compiler::nvgpu
