// Tile programs for processors: where values live, and clusters as loop nests over register tiles.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/TilesToCpu.h"

#include "compiler/Passes.h"
#include "compiler/Program.h"
#include "compiler/targets/cpu/CpuLowering.h"
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

CpuLowering::CpuLowering(func::FuncOp program, const Machine &machine)
    : TileLowering(program), machine(machineFor(program, machine)), lanes(program) {}

/// Sizes and addresses from the argument words (compiler/Program.h).
void CpuLowering::bindArguments() {
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

int64_t CpuLowering::run() {
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

/// The rows that loads of a loop's body will read in its next turn, or some turns later.
std::vector<Prefetch> CpuLowering::nextRows(Block &block) {
  std::vector<Prefetch> rows;
  auto loop = dyn_cast<scf::ForOp>(block.getParentOp());
  if (!loop || !machine.prefetchChunks)
    return rows;
  for (auto load : block.getOps<phi::LoadRowsOp>()) {
    auto type = cast<RankedTensorType>(load.getResult().getType());
    if (load.getFirst() != loop.getInductionVar() || type.getRank() != 2)
      continue;
    const RowOperand &operand = rowOperands.find(load.getSource())->second;
    Value next = arith::AddIOp::create(b, loc, scalars.lookup(load.getFirst()),
                                       constant(machine.prefetchChunks * type.getDimSize(0)));
    rows.push_back({operand.base, operand.stride, next, type.getElementType(), type.getDimSize(0), type.getDimSize(1)});
  }
  return rows;
}

/// The largest contraction of a chunk loop fetches the next chunk's rows.
void CpuLowering::beginBlock(Block &block, const Clusters &clusters) {
  std::vector<Prefetch> rows = nextRows(block);
  const Cluster *busiest = nullptr;
  double most = 0;
  for (const Item &item : clusters.items)
    if (double work = item.isCluster() ? contractionWork(item.cluster) : 0; work > most) {
      most = work;
      busiest = &item.cluster;
    }
  if (busiest)
    prefetches[busiest->ops.front()] = rows;
}

void CpuLowering::lowerCluster(const Cluster &cluster) {
  llvm::DenseMap<Value, Place> turned = turnOperands(cluster);
  auto lanePlace = [&](Value value) {
    auto it = turned.find(value);
    return it == turned.end() ? placeOf(value) : it->second;
  };
  Surroundings around{[&](Value value) { return placeOf(value); },          lanePlace,
                      [&](Value value) { return splatOf(value); },          scalars,
                      [&](Value value) { return cluster.isStored(value); }, prefetches.lookup(cluster.ops.front())};
  ClusterEmitter(cluster, b, loc, machine, lanes, around).emit();
}

/// Scratch with the lane axis innermost, rounded up to whole vectors unless `dense`.
Place CpuLowering::allocate(RankedTensorType type, unsigned lane, bool dense) {
  Place place;
  place.base = scratch;
  place.element = type.getElementType();
  place.sizes.assign(type.getShape().begin(), type.getShape().end());
  place.lane = lane;
  int64_t bytes = place.element.getIntOrFloatBitWidth() / 8, entries = 1;
  place.strides.assign(type.getRank(), 0);
  if (type.getRank()) {
    place.strides[lane] = 1;
    entries = dense ? type.getDimSize(lane) : llvm::alignTo(type.getDimSize(lane), machine.vectorBytes / 4);
    for (int axis = type.getRank() - 1; axis >= 0; --axis)
      if (axis != int(lane)) {
        place.strides[axis] = entries;
        entries *= type.getDimSize(axis);
      }
  }
  place.padded = !dense;
  place.offset = scratchBytes / bytes;
  scratchBytes = llvm::alignTo(scratchBytes + entries * bytes, 64);
  return place;
}

/// Copies of the operands that contractions read along the lanes but whose entries are no neighbours there: one copy is
/// cheaper than gathering them again for every row.
llvm::DenseMap<Value, Place> CpuLowering::turnOperands(const Cluster &cluster) {
  llvm::DenseMap<Value, Place> turned;
  for (linalg::ContractOp op : cluster.contractions()) {
    if (cluster.extents.size() != 2)
      continue;
    llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    unsigned laneDim = lanes.ofContraction(cluster.contractions().front());
    for (auto [operand, map] : llvm::zip(op.getInputs(), maps)) {
      Place place = placeOf(operand);
      for (unsigned axis = 0; axis < map.getNumResults(); ++axis) {
        if (map.getDimPosition(axis) != laneDim || map.getNumResults() != 2 || place.isDense(axis) ||
            turned.contains(operand))
          continue;
        Place copy = allocate(cast<RankedTensorType>(operand.getType()), axis, /*dense=*/false);
        copyPlace(place, copy);
        turned[operand] = copy;
      }
    }
  }
  return turned;
}

void CpuLowering::forEachRow(const Place &place, llvm::function_ref<void(llvm::ArrayRef<Index>)> body) {
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

void CpuLowering::fillPlace(const Place &place, double number) {
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

void CpuLowering::copyPlace(const Place &from, const Place &to) {
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

int64_t lowerTiles(func::FuncOp function, const Machine &machine) { return CpuLowering(function, machine).run(); }

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
    Result<yaglom::Schedule> wanted = yaglom::Schedule::parse(schedule);
    if (!wanted) {
      getOperation().emitError(wanted.error().what());
      return signalPassFailure();
    }
    *machine = machine->with(*wanted);
    int64_t bytes = 0; // one arena serves every function of the module
    for (func::FuncOp function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      bytes = std::max(bytes, cpu::lowerTiles(function, *machine));
    getOperation()->setAttr("phi.scratch_bytes", OpBuilder(&getContext()).getI64IntegerAttr(bytes));
  }
};

} // namespace

} // namespace yaglom::compiler
