// The steps of a tile program in order: clusters become loop nests, control flow carries places instead of tensors.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/TilesToCpu.h"

#include "compiler/Passes.h"
#include "compiler/Program.h"
#include "compiler/targets/cpu/TileLowering.h"
#include "compiler/tile/Schedule.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace yaglom::compiler::cpu {

/// The processor as the program's schedule wants it used.
static Machine machineFor(func::FuncOp program, const Machine &machine) {
  auto attr = program->getAttrOfType<DictionaryAttr>(Schedule::kAttr);
  return Schedule::fromAttr(attr).compact ? machine.compact() : machine;
}

TileLowering::TileLowering(func::FuncOp program, const Machine &machine)
    : program(program), machine(machineFor(program, machine)), lanes(program), b(program), loc(program.getLoc()),
      memory(b, loc) {}

/// Sizes and addresses from the argument words (compiler/Program.h).
void TileLowering::bindArguments() {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  code = func::FuncOp::create(b, loc, program.getName(), b.getFunctionType({pointer, pointer}, {}));
  code.setArgAttr(0, "llvm.noalias", b.getUnitAttr());
  code.setArgAttr(1, "llvm.noalias", b.getUnitAttr());
  Block *entry = code.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value words = entry->getArgument(0);
  scratch = entry->getArgument(1);
  auto word = [&](int64_t i) { return memory.load(memory.move(words, b.getI64Type(), i), b.getI64Type()); };
  auto asIndex = [&](Value x) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), x).getResult(); };
  Block &body = program.getBody().front();
  constexpr int kSizes = 5;
  for (int i = 0; i < kSizes; ++i)
    scalars.map(body.getArgument(i), asIndex(word(i)));
  stateIn = LLVM::IntToPtrOp::create(b, loc, pointer, word(kSizes));
  stateOut = LLVM::IntToPtrOp::create(b, loc, pointer, word(kSizes + 1));
  for (BlockArgument argument : body.getArguments().drop_front(kSizes)) {
    auto type = cast<RankedTensorType>(argument.getType());
    int64_t at = Entry::kHeaderWords + 2 * (argument.getArgNumber() - kSizes);
    Value address = LLVM::IntToPtrOp::create(b, loc, pointer, word(at));
    if (!type.hasStaticShape()) {
      rowOperands[argument] = {address, asIndex(word(at + 1))};
      continue;
    }
    places[argument] = rowMajor(address, type, 0);
  }
}

int64_t TileLowering::run() {
  bindArguments();
  Block &body = program.getBody().front();
  Clusters clusters(body);
  lowerBlock(body, clusters);
  func::ReturnOp::create(b, loc);
  program.erase();
  return scratchBytes;
}

static double contractionWork(const Cluster &cluster) {
  double work = 0;
  for (linalg::ContractOp op : cluster.contractions()) {
    double entries = 1;
    for (int64_t extent : cluster.extents)
      entries *= extent;
    double operand = cast<RankedTensorType>(op.getInputs()[0].getType()).getNumElements();
    work += entries * operand;
  }
  return work;
}

/// The rows that loads of a loop's body will read in its next turn.
std::vector<Prefetch> TileLowering::nextRows(Block &block) {
  std::vector<Prefetch> rows;
  auto loop = dyn_cast<scf::ForOp>(block.getParentOp());
  if (!loop)
    return rows;
  for (auto load : block.getOps<phi::LoadRowsOp>()) {
    auto type = cast<RankedTensorType>(load.getResult().getType());
    if (load.getFirst() != loop.getInductionVar() || type.getRank() != 2)
      continue;
    const RowOperand &operand = rowOperands.find(load.getSource())->second;
    Value next = arith::AddIOp::create(b, loc, scalars.lookup(load.getFirst()), constant(type.getDimSize(0)));
    rows.push_back({operand.base, operand.stride, next, type.getElementType(), type.getDimSize(0), type.getDimSize(1)});
  }
  return rows;
}

void TileLowering::lowerBlock(Block &block, const Clusters &clusters) {
  for (auto constantOp : block.getOps<arith::ConstantOp>())
    b.clone(*constantOp, scalars);
  claimInserts(block, clusters);
  // The largest contraction of a chunk loop fetches the next chunk's rows.
  const Item *busiest = nullptr;
  double most = 0;
  std::vector<Prefetch> rows = nextRows(block);
  for (const Item &item : clusters.items)
    if (double work = item.isCluster() ? contractionWork(item.cluster) : 0; work > most) {
      most = work;
      busiest = &item;
    }
  for (const Item &item : clusters.items) {
    if (!item.isCluster()) {
      lowerOp(item.op, clusters);
      continue;
    }
    const Cluster &cluster = item.cluster;
    auto isStored = [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) { return !cluster.contains(user); });
    };
    llvm::DenseMap<Value, Place> turned = turnOperands(cluster);
    auto lanePlace = [&](Value value) {
      auto it = turned.find(value);
      return it == turned.end() ? placeOf(value) : it->second;
    };
    Surroundings around{[&](Value value) { return placeOf(value); },
                        lanePlace,
                        [&](Value value) { return splatOf(value); },
                        scalars,
                        isStored,
                        &item == busiest ? rows : std::vector<Prefetch>()};
    ClusterEmitter(cluster, b, loc, machine, lanes, around).emit();
  }
}

void TileLowering::lowerOp(Operation *op, const Clusters &clusters) {
  if (auto load = dyn_cast<phi::LoadRowsOp>(op))
    return lowerLoad(load);
  if (auto store = dyn_cast<phi::StoreRowsOp>(op))
    return lowerStore(store);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return lowerFor(loop, clusters);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return lowerWhile(loop, clusters);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return lowerIf(branch, clusters);
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    Place place = placeOf(extract.getTensor());
    scalars.map(extract.getResult(), memory.load(memory.address(place, {}), place.element));
    return;
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    Place whole = placeOf(insert.getResult()), target = placeOf(insert.getDest());
    if (!(whole == target) && !insert.getDest().getDefiningOp<tensor::EmptyOp>())
      copyPlace(target, whole);
    Place part = whole.part(insert.getStaticOffsets(), insert.getSourceType().getShape());
    if (Place from = placeOf(insert.getSource()); !(from == part))
      copyPlace(from, part);
    return;
  }
  if (auto store = dyn_cast<phi::StoreValueOp>(op))
    return storeTo(store.getValue(), placeOf(store.getTarget()));
  if (auto load = dyn_cast<phi::LoadItemOp>(op))
    return copyPlace(itemPlace(load.getSource(), load.getItem(), load.getType()), placeOf(load.getResult()));
  if (auto store = dyn_cast<phi::StoreItemOp>(op))
    return storeTo(store.getValue(), itemPlace(store.getTarget(), store.getItem(), store.getValue().getType()));
  if (auto state = dyn_cast<phi::StateInOp>(op))
    return lowerStateIn(state, clusters);
  if (auto state = dyn_cast<phi::StateOutOp>(op))
    return lowerStateOut(state);
  if (auto given = dyn_cast<phi::HasStateOp>(op))
    return scalars.map(given.getResult(), isGiven(stateIn));
  b.clone(*op, scalars); // an index, a condition, a number
}

/// Where a loop or branch carries a value: where its result is wanted, else where it already is, else a new place.
Place TileLowering::carriedPlace(Value init, Value result, Operation *op, const Clusters &clusters) {
  bool isEmpty = init.getDefiningOp<tensor::EmptyOp>();
  bool owned = !isEmpty && !splatOf(init) && isDeadAfter(init, op, clusters) &&
               !(isa<BlockArgument>(init) && isa<func::FuncOp>(init.getParentBlock()->getParentOp()));
  auto claimed = claims.find(result);
  Place place = claimed != claims.end() ? claimed->second
                : owned                 ? placeOf(init)
                                        : allocate(cast<RankedTensorType>(result.getType()), lanes.of(result));
  places[result] = place;
  if (std::optional<double> number = splatOf(init))
    fillPlace(place, *number);
  else if (!isEmpty && !(placeOf(init) == place))
    copyPlace(placeOf(init), place);
  return place;
}

/// Moves what a body yields to where the next turn expects it.
void TileLowering::settle(ValueRange yields, llvm::ArrayRef<Place> carried) {
  llvm::SmallVector<std::pair<Place, Place>> moves;
  for (auto [value, place] : llvm::zip(yields, carried)) {
    if (splatOf(value)) {
      fillPlace(place, *splatOf(value));
      continue;
    }
    if (!(placeOf(value) == place))
      moves.push_back({placeOf(value), place});
  }
  // Values may trade places: then all are read before any is written.
  if (moves.size() > 1)
    for (auto &[from, to] : moves) {
      Place spare = allocate(RankedTensorType::get(from.sizes, from.element), from.lane);
      copyPlace(from, spare);
      from = spare;
    }
  for (auto &[from, to] : moves)
    copyPlace(from, to);
}

Value TileLowering::isGiven(Value address) {
  Value null = LLVM::ZeroOp::create(b, loc, address.getType());
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, address, null);
}

/// A tensor in the caller's memory, row by row.
Place TileLowering::rowMajor(Value address, RankedTensorType type, int64_t offset) {
  Place place{address, offset, type.getElementType(), {}, {}, unsigned(std::max<int64_t>(type.getRank() - 1, 0)),
              false};
  place.sizes.assign(type.getShape().begin(), type.getShape().end());
  place.strides.assign(type.getRank(), 1);
  for (int axis = type.getRank() - 2; axis >= 0; --axis)
    place.strides[axis] = place.strides[axis + 1] * type.getDimSize(axis + 1);
  return place;
}

/// One of the tensors that an operand holds one after the other.
Place TileLowering::itemPlace(Value operand, Value item, RankedTensorType type) {
  Value address = rowAddress(rowOperands.find(operand)->second, type.getElementType(), scalars.lookupOrDefault(item));
  return rowMajor(address, type, 0);
}

void TileLowering::storeTo(Value value, const Place &target) {
  if (std::optional<double> number = splatOf(value))
    return fillPlace(target, *number);
  copyPlace(placeOf(value), target);
}

void TileLowering::lowerStateIn(phi::StateInOp op, const Clusters &clusters) {
  Place place = carriedPlace(op.getInitial(), op.getResult(), op, clusters);
  auto branch = scf::IfOp::create(b, loc, isGiven(stateIn), false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  copyPlace(rowMajor(stateIn, cast<RankedTensorType>(op.getResult().getType()), op.getOffset()), place);
}

void TileLowering::lowerStateOut(phi::StateOutOp op) {
  Place place = placeOf(op.getValue());
  auto branch = scf::IfOp::create(b, loc, isGiven(stateOut), false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  copyPlace(place, rowMajor(stateOut, cast<RankedTensorType>(op.getValue().getType()), op.getOffset()));
}

static bool isTensor(Value value) { return isa<RankedTensorType>(value.getType()); }

void TileLowering::lowerFor(scf::ForOp op, const Clusters &clusters) {
  llvm::SmallVector<Place> carried;
  for (auto [init, argument, result] : llvm::zip(op.getInits(), op.getRegionIterArgs(), op.getResults())) {
    carried.push_back(carriedPlace(init, result, op, clusters));
    places[argument] = carried.back();
  }
  auto scalar = [&](Value x) { return scalars.lookup(x); };
  auto loop = scf::ForOp::create(b, loc, scalar(op.getLowerBound()), scalar(op.getUpperBound()), scalar(op.getStep()));
  scalars.map(op.getInductionVar(), loop.getInductionVar());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Clusters inner(*op.getBody());
  claimYields(op.getRegionIterArgs(), op.getYieldedValues(), carried, inner);
  lowerBlock(*op.getBody(), inner);
  settle(op.getYieldedValues(), carried);
}

/// The first region of our loops only tests; tensors are carried by their places, the rest as values.
void TileLowering::lowerWhile(scf::WhileOp op, const Clusters &clusters) {
  llvm::SmallVector<Place> carried;
  llvm::SmallVector<Value> olds, yields, inits;
  llvm::SmallVector<Type> types;
  for (auto [i, init] : llvm::enumerate(op.getInits())) {
    if (!isTensor(init)) {
      inits.push_back(scalars.lookup(init));
      types.push_back(init.getType());
      continue;
    }
    carried.push_back(carriedPlace(init, op.getResult(i), op, clusters));
    places[op.getAfterArguments()[i]] = carried.back();
    places[op.getBeforeArguments()[i]] = carried.back();
    olds.push_back(op.getAfterArguments()[i]);
    yields.push_back(op.getYieldOp()->getOperand(i));
  }
  auto loop = scf::WhileOp::create(
      b, loc, types, inits,
      [&](OpBuilder &, Location, ValueRange args) {
        for (auto [i, argument] : llvm::enumerate(args))
          scalars.map(op.getBeforeArguments()[i], argument);
        for (Operation &test : op.getBeforeBody()->without_terminator())
          b.clone(test, scalars);
        scf::ConditionOp::create(b, loc, scalars.lookup(op.getConditionOp().getCondition()), args);
      },
      [&](OpBuilder &, Location, ValueRange args) {
        for (auto [i, argument] : llvm::enumerate(args))
          scalars.map(op.getAfterArguments()[i], argument);
        Clusters inner(*op.getAfterBody());
        claimYields(olds, yields, carried, inner);
        lowerBlock(*op.getAfterBody(), inner);
        settle(yields, carried);
        llvm::SmallVector<Value> next;
        for (Value value : op.getYieldOp()->getOperands())
          if (!isTensor(value))
            next.push_back(scalars.lookupOrDefault(value));
        scf::YieldOp::create(b, loc, next);
      });
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    scalars.map(op.getResult(i), result);
}

void TileLowering::lowerIf(scf::IfOp op, const Clusters &clusters) {
  llvm::SmallVector<Place> carried;
  ValueRange kept = op.elseYield()->getOperands();
  for (auto [old, result] : llvm::zip(kept, op.getResults()))
    carried.push_back(carriedPlace(old, result, op, clusters));
  auto branch = scf::IfOp::create(b, loc, scalars.lookupOrDefault(op.getCondition()), false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  Clusters inner(*op.thenBlock());
  claimYields(kept, op.thenYield()->getOperands(), carried, inner);
  lowerBlock(*op.thenBlock(), inner);
  settle(op.thenYield()->getOperands(), carried);
}

void TileLowering::forEachRow(const Place &place, llvm::function_ref<void(llvm::ArrayRef<Index>)> body) {
  llvm::SmallVector<Index> at(place.sizes.size());
  OpBuilder::InsertionGuard guard(b);
  for (size_t axis = 0; axis < place.sizes.size(); ++axis) {
    if (axis == place.lane || place.sizes[axis] == 1)
      continue;
    auto loop = scf::ForOp::create(b, loc, constant(0), constant(place.sizes[axis]), constant(1));
    b.setInsertionPointToStart(loop.getBody());
    at[axis] = {loop.getInductionVar(), 0};
  }
  body(at);
}

static int64_t laneCount(const Place &place) { return place.sizes.empty() ? 1 : place.sizes[place.lane]; }

void TileLowering::fillPlace(const Place &place, double number) {
  forEachRow(place, [&](llvm::ArrayRef<Index> at) {
    Value address = memory.address(place, at);
    int64_t width = machine.lanes(place.element.getIntOrFloatBitWidth() / 8), lanesLeft = laneCount(place);
    auto type = VectorType::get({width}, place.element);
    Value vector = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(type, Attribute(FloatAttr::get(place.element, number))));
    for (int64_t l = 0; l < lanesLeft; l += width)
      memory.storeVector(vector, memory.move(address, place.element, l), lanesLeft - l);
  });
}

void TileLowering::copyPlace(const Place &from, const Place &to) {
  forEachRow(to, [&](llvm::ArrayRef<Index> at) {
    Value source = memory.address(from, at), target = memory.address(to, at);
    int64_t count = laneCount(to), width = machine.lanes(to.element.getIntOrFloatBitWidth() / 8);
    bool dense = to.sizes.empty() || (from.isDense(to.lane) && to.isDense(to.lane));
    int64_t fromStride = to.sizes.empty() ? 1 : from.strides[to.lane],
            toStride = to.sizes.empty() ? 1 : to.strides[to.lane];
    for (int64_t l = 0; l < count; l += dense ? width : 1) {
      Value s = memory.move(source, to.element, l * fromStride), t = memory.move(target, to.element, l * toStride);
      if (dense)
        memory.storeVector(memory.loadVector(s, to.element, width, count - l), t, count - l);
      else
        memory.store(memory.load(s, to.element), t);
    }
  });
}

int64_t lowerTiles(func::FuncOp function, const Machine &machine) { return TileLowering(function, machine).run(); }

} // namespace yaglom::compiler::cpu

namespace yaglom::compiler {

#define GEN_PASS_DEF_TILESTOCPU
#include "compiler/Passes.h.inc"

namespace {

struct TilesToCpuPass : impl::TilesToCpuBase<TilesToCpuPass> {
  using TilesToCpuBase::TilesToCpuBase;
  void runOnOperation() override {
    Result<cpu::Machine> machine = cpu::Machine::named(cpu);
    if (!machine) {
      getOperation().emitError(machine.error().what());
      return signalPassFailure();
    }
    int64_t bytes = 0; // one arena serves every function of the module
    for (func::FuncOp function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      bytes = std::max(bytes, cpu::lowerTiles(function, *machine));
    getOperation()->setAttr("phi.scratch_bytes", OpBuilder(&getContext()).getI64IntegerAttr(bytes));
  }
};

} // namespace

} // namespace yaglom::compiler
