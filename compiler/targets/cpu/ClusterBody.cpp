// What happens inside a register tile: contractions, pointwise bodies, reductions.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/ClusterEmitter.h"

#include "compiler/lower/ExpandMath.h"
#include "dialect/Phi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace yaglom::compiler::cpu {

using Position = llvm::ArrayRef<int64_t>;

/// Products that share a k loop first; then those that add to an accumulator of this cluster.
void ClusterEmitter::emitContractions() {
  llvm::SmallVector<linalg::ContractOp> together, chained;
  for (linalg::ContractOp op : cluster.contractions()) {
    Value init = accumulatorOf(op);
    bool chain = init && init.getDefiningOp() && cluster.contains(init.getDefiningOp());
    (chain ? chained : together).push_back(op);
  }
  if (!together.empty())
    emitProducts(together);
  for (linalg::ContractOp op : chained)
    emitProducts({op});
}

static AffineMap mapOf(linalg::ContractOp op, unsigned operand) { return op.getIndexingMapsArray()[operand]; }

void ClusterEmitter::emitProducts(llvm::ArrayRef<linalg::ContractOp> group) {
  linalg::ContractOp first = group[0];
  locate(first);
  int kDim = cluster.extents.size();
  AffineMap lhs = mapOf(first, 0);
  int64_t K = 0;
  for (unsigned i = 0; i < lhs.getNumResults(); ++i)
    if (int(lhs.getDimPosition(i)) == kDim)
      K = cast<RankedTensorType>(first.getInputs()[0].getType()).getDimSize(i);
  llvm::SmallVector<Sum> sums;
  for (linalg::ContractOp op : group) {
    Value init = accumulatorOf(op);
    auto type = vectorType(height, L, getElementTypeOrSelf(op->getResult(0)));
    if (!init)
      sums.push_back({{}, arith::ConstantOp::create(b, loc, b.getZeroAttr(type))});
    else if (auto it = tiles.find(init); it != tiles.end())
      sums.push_back({{}, it->second});
    else
      sums.push_back({{}, widen(read(init, mapOf(op, 2)), height, L)});
  }
  int64_t stride = machine.productSteps, turns = K / stride * stride;
  auto steps = [&](Index k, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      llvm::DenseMap<Value, Value> vectors;
      for (auto [op, sum] : llvm::zip(group, sums))
        sum.carried = multiplyAdd(op, k + i, sum.carried, vectors);
    }
  };
  loop(0, turns, stride, sums, [&](Index k) { steps(k, stride); });
  steps({{}, turns}, K - turns);
  for (auto [op, sum] : llvm::zip(group, sums))
    tiles[op->getResult(0)] = sum.carried;
}

/// sum + column of the one operand x row of the other, at one k.
Value ClusterEmitter::multiplyAdd(linalg::ContractOp op, Index k, Value sum, llvm::DenseMap<Value, Value> &vectors) {
  auto usesLanes = [&](unsigned i) {
    return llvm::is_contained(mapOf(op, i).getResults(), b.getAffineDimExpr(laneDim));
  };
  unsigned laneSide = usesLanes(0) ? 0 : 1, rowSide = 1 - laneSide;
  Value laneOperand = op.getInputs()[laneSide], rowOperand = op.getInputs()[rowSide];
  Value &vector = vectors[laneOperand];
  if (!vector)
    vector = readLanes(around.lanePlace(laneOperand), mapOf(op, laneSide), indicesAt(mapOf(op, laneSide), 0, k));
  Place place = around.place(rowOperand);
  AffineMap map = mapOf(op, rowSide);
  llvm::SmallVector<Value> column;
  for (int64_t r = 0; r < height; ++r)
    column.push_back(memory.load(memory.address(place, indicesAt(map, r, k)), place.element));
  Value scalars = vector::FromElementsOp::create(b, loc, VectorType::get({height}, place.element), column);
  return vector::OuterProductOp::create(b, loc, sum.getType(), scalars, vector, sum, vector::CombiningKind::ADD);
}

ClusterEmitter::Tile ClusterEmitter::emitGeneric(linalg::GenericOp op) {
  llvm::DenseMap<Value, Tile> values;
  Block *body = op.getBody();
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    auto it = tiles.find(input);
    values[body->getArgument(i)] = it != tiles.end() ? it->second : read(input, maps[i]);
  }
  for (Operation &inner : body->without_terminator())
    values[inner.getResult(0)] = emitScalarOp(inner, values);
  Value yielded = body->getTerminator()->getOperand(0);
  auto it = values.find(yielded);
  return it != values.end() ? it->second : captured(yielded);
}

/// Counts are 32-bit lanes: as wide as float32.
static Type laneType(Type type, OpBuilder &b) { return type.isIndex() ? b.getI32Type() : type; }

/// Counts fit in 31 bits, and processors before AVX-512 compare only signed integers in one instruction.
static arith::CmpIPredicate comparedAsSigned(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::ult:
    return arith::CmpIPredicate::slt;
  case arith::CmpIPredicate::ule:
    return arith::CmpIPredicate::sle;
  case arith::CmpIPredicate::ugt:
    return arith::CmpIPredicate::sgt;
  case arith::CmpIPredicate::uge:
    return arith::CmpIPredicate::sge;
  default:
    return predicate;
  }
}

ClusterEmitter::Tile ClusterEmitter::emitScalarOp(Operation &op, llvm::DenseMap<Value, Tile> &values) {
  if (auto index = dyn_cast<linalg::IndexOp>(op))
    return indexTile(index.getDim());
  Type element = laneType(op.getResult(0).getType(), b);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    Attribute attr = constant.getValue();
    if (auto integer = dyn_cast<IntegerAttr>(attr); integer && integer.getType().isIndex())
      attr = b.getI32IntegerAttr(integer.getInt());
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vectorType(1, 1, element), attr));
  }
  llvm::SmallVector<Tile> operands;
  int64_t rows = 1, lanes = 1;
  for (Value operand : op.getOperands()) {
    auto it = values.find(operand);
    operands.push_back(it != values.end() ? it->second : captured(operand));
    auto type = cast<VectorType>(operands.back().getType());
    rows = std::max(rows, type.getDimSize(0));
    lanes = std::max(lanes, type.getDimSize(1));
  }
  if (isa<arith::IndexCastOp>(op))
    return operands[0];
  for (Tile &operand : operands)
    operand = widen(operand, rows, lanes);
  if (isa<phi::Exp2ScaledOp>(op))
    return emitExp2Scaled(b, loc, operands[0], operands[1]);
  if (isa<phi::LdexpOp>(op))
    return emitLdexp(b, loc, operands[0], operands[1]);
  if (auto comparison = dyn_cast<arith::CmpIOp>(op))
    return arith::CmpIOp::create(b, loc, comparedAsSigned(comparison.getPredicate()), operands[0], operands[1]);
  OperationState state(loc, op.getName(), operands, vectorType(rows, lanes, element), op.getAttrs());
  return b.create(state)->getResult(0);
}

/// A number, count or condition from outside of the op, the same for the whole tile.
ClusterEmitter::Tile ClusterEmitter::captured(Value value) {
  Value scalar = around.scalars.lookupOrDefault(value);
  if (scalar.getType().isIndex())
    scalar = arith::IndexCastOp::create(b, loc, b.getI32Type(), scalar);
  return vector::BroadcastOp::create(b, loc, vectorType(1, 1, scalar.getType()), scalar);
}

ClusterEmitter::Tile ClusterEmitter::indexTile(unsigned dim) {
  bool isLane = int(dim) == laneDim, isRow = int(dim) == rowDim;
  int64_t count = isLane ? L : isRow ? height : 1;
  auto type = vectorType(isRow ? count : 1, isLane ? count : 1, b.getI32Type());
  llvm::SmallVector<int32_t> steps;
  for (int64_t i = 0; i < count; ++i)
    steps.push_back(int32_t(i + at[dim].constant));
  Value offsets = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, llvm::ArrayRef<int32_t>(steps)));
  if (!at[dim].value)
    return offsets;
  Value start = arith::IndexCastOp::create(b, loc, b.getI32Type(), at[dim].value);
  return arith::AddIOp::create(b, loc, offsets, vector::BroadcastOp::create(b, loc, type, start));
}

static bool isSum(linalg::ReduceOp op) { return isa<arith::AddFOp>(op.getCombiner().front().front()); }

/// A running maximum is a number from the start and passes over NaN: then one instruction does it.
Value ClusterEmitter::combine(linalg::ReduceOp op, Value running, Value next) {
  if (isSum(op))
    return arith::AddFOp::create(b, loc, running, next);
  Value larger = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, next, running);
  return arith::SelectOp::create(b, loc, larger, next, running);
}

/// What the reduction starts from, in every entry of a vector.
Value ClusterEmitter::neutral(linalg::ReduceOp op, Position shape) {
  Type element = getElementTypeOrSelf(op->getResult(0));
  auto type = VectorType::get(shape, element);
  double start = around.splat(op.getInits()[0]).value();
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, Attribute(FloatAttr::get(element, start))));
}

/// Sums along the rows are one vector; sums along the lanes stay a tile until the end.
llvm::SmallVector<ClusterEmitter::Sum> ClusterEmitter::startSums(int64_t rows) {
  llvm::SmallVector<Sum> sums;
  bool alongLanes = cluster.reduced == laneDim;
  for (Operation *op : cluster.ops)
    if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
      sums.push_back({reduce, alongLanes ? neutral(reduce, {rows, L}) : neutral(reduce, {L})});
  return sums;
}

void ClusterEmitter::accumulate(Sum &sum) {
  Value input = sum.op.getInputs()[0];
  auto it = tiles.find(input);
  Tile value = it != tiles.end() ? it->second : read(input, b.getMultiDimIdentityMap(cluster.extents.size()));
  value = widen(value, height, L);
  if (cluster.reduced == laneDim) {
    if (int64_t valid = validLanes(); valid < L) { // what lies past the end does not count
      llvm::SmallVector<bool> bits(height * L);
      for (int64_t i = 0; i < height * L; ++i)
        bits[i] = i % L < valid;
      auto type = vectorType(height, L, b.getI1Type());
      Value mask = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits)));
      value = arith::SelectOp::create(b, loc, mask, value, neutral(sum.op, {height, L}));
    }
    sum.carried = combine(sum.op, sum.carried, value);
    return;
  }
  llvm::SmallVector<Value> rows;
  for (int64_t r = 0; r < height; ++r)
    rows.push_back(vector::ExtractOp::create(b, loc, value, Position{r}));
  if (!isSum(sum.op)) {
    for (Value row : rows)
      sum.carried = combine(sum.op, sum.carried, row);
    return;
  }
  // Pairs, then pairs of pairs: the same order for the same tile, and short chains.
  while (rows.size() > 1) {
    llvm::SmallVector<Value> half;
    for (size_t i = 0; i + 1 < rows.size(); i += 2)
      half.push_back(combine(sum.op, rows[i], rows[i + 1]));
    if (rows.size() % 2)
      half.push_back(rows.back());
    rows = std::move(half);
  }
  sum.carried = combine(sum.op, sum.carried, rows[0]);
}

void ClusterEmitter::finish(Sum &sum) {
  Place place = around.place(sum.op->getResult(0));
  auto indices = [&](int64_t row) {
    llvm::SmallVector<Index> result;
    for (int dim = 0; dim < int(cluster.extents.size()); ++dim)
      if (dim != cluster.reduced)
        result.push_back(dim == rowDim ? at[dim] + row : at[dim]);
    return result;
  };
  if (cluster.reduced != laneDim) {
    Value address = memory.address(place, indices(0));
    if (laneDim < 0)
      return memory.store(vector::ExtractOp::create(b, loc, sum.carried, Position{0}), address);
    int axis = laneDim - (cluster.reduced < laneDim);
    return writeLanes(sum.carried, place, axis, address);
  }
  auto kind = isSum(sum.op) ? vector::CombiningKind::ADD : vector::CombiningKind::MAXNUMF;
  // Within one vector the order is free; it is fixed by the code, so the bits are the same each time.
  auto fast = isSum(sum.op) ? arith::FastMathFlags::reassoc : arith::FastMathFlags::nnan;
  for (int64_t r = 0; r < height; ++r) {
    Value row = vector::ExtractOp::create(b, loc, sum.carried, Position{r});
    Value total = vector::ReductionOp::create(b, loc, kind, row, fast);
    memory.store(total, memory.address(place, indices(r)));
  }
}

} // namespace yaglom::compiler::cpu
