// Clusters without contractions: entries are dealt to threads; sums run along a warp.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/ExpandMath.h"
#include "compiler/targets/nvgpu/GpuLowering.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <numeric>

using namespace mlir;

namespace yaglom::compiler::nvgpu {

static int64_t product(llvm::ArrayRef<int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}

/// Operands and results exist before the step begins: making a place may be a step of its own.
void GpuLowering::makePlaces(const Cluster &cluster) {
  for (Operation *op : cluster.ops) {
    auto linalgOp = cast<linalg::LinalgOp>(op);
    bool reads = isa<linalg::ContractOp>(op);
    for (OpOperand *input : linalgOp.getDpsInputOperands())
      if (Operation *maker = input->get().getDefiningOp(); !(maker && cluster.contains(maker)))
        if (reads || !splatOf(input->get()))
          placeOf(input->get());
    if (auto contract = dyn_cast<linalg::ContractOp>(op))
      if (Value init = accumulatorOf(contract);
          init && !(init.getDefiningOp() && cluster.contains(init.getDefiningOp())))
        placeOf(init);
    if (isa<linalg::ReduceOp>(op) || cluster.isStored(op->getResult(0)))
      placeOf(op->getResult(0));
  }
}

void GpuLowering::lowerCluster(const Cluster &cluster) {
  makePlaces(cluster);
  beginStep();
  if (!cluster.contractions().empty()) {
    bool matrices = cluster.extents.size() == 2 && llvm::all_of(cluster.contractions(), [&](linalg::ContractOp op) {
                      return matricesOf(op).has_value();
                    });
    return matrices ? emitMatrices(cluster) : emitDots(cluster);
  }
  if (cluster.reduced >= 0)
    return emitReductions(cluster);
  emitEntries(cluster);
}

/// A thread takes four neighbours where it can: what it reads and writes then is one access. All of it is read before any of
/// it is written. Entries that belong to threads are each made by its own.
void GpuLowering::emitEntries(const Cluster &cluster) {
  auto isOwned = [&](Value value) { return !splatOf(value) && isDealt(placeOf(value)); };
  auto touchesOwned = [&](Operation *op) {
    auto generic = cast<linalg::GenericOp>(op);
    return llvm::any_of(generic.getInputs(),
                        [&](Value input) {
                          return !(input.getDefiningOp() && cluster.contains(input.getDefiningOp())) && isOwned(input);
                        }) ||
           (cluster.isStored(op->getResult(0)) && isOwned(op->getResult(0)));
  };
  if (isDealable(cluster.extents) && llvm::any_of(cluster.ops, touchesOwned))
    return overDealtEntries(cluster.extents, [&](At at) {
      Values values;
      emitBody(cluster, at, values);
      storeResults(cluster, {llvm::SmallVector<Value>(at)}, {values});
    });
  constexpr int64_t kNeighbours = 4;
  llvm::SmallVector<int64_t> extents(cluster.extents);
  int64_t neighbours = 1;
  if (!extents.empty() && extents.back() % kNeighbours == 0 && product(extents) >= kNeighbours * device.threads) {
    neighbours = kNeighbours;
    extents.back() /= kNeighbours;
  }
  overEntries(extents, [&](At first) {
    std::vector<llvm::SmallVector<Value>> at(neighbours, llvm::SmallVector<Value>(first));
    std::vector<Values> values(neighbours);
    for (int64_t i = 0; i < neighbours; ++i) {
      if (neighbours > 1) {
        Value start = arith::MulIOp::create(b, loc, first.back(), constant(neighbours));
        at[i].back() = arith::AddIOp::create(b, loc, start, constant(i));
      }
      emitBody(cluster, at[i], values[i]);
    }
    storeResults(cluster, at, values);
  });
}

/// Neighbouring threads take neighbouring entries. Where the last axis divides the block, a thread keeps its column, and steps
/// are whole rows.
void GpuLowering::overEntries(llvm::ArrayRef<int64_t> extents, llvm::function_ref<void(At)> body) {
  int64_t total = product(extents), columns = extents.empty() ? 1 : extents.back();
  if (extents.size() == 2 && device.threads % columns == 0) {
    int64_t step = device.threads / columns;
    Value row = arith::DivUIOp::create(b, loc, threads.thread, constant(columns));
    Value column = arith::RemUIOp::create(b, loc, threads.thread, constant(columns));
    return loop(row, extents[0], step, extents[0] % step == 0, {},
                [&](Value r, ValueRange) {
                  body({r, column});
                  return llvm::SmallVector<Value>();
                }),
           void();
  }
  loop(threads.thread, total, device.threads, total % device.threads == 0, {}, [&](Value entry, ValueRange) {
    body(unflatten(entry, extents));
    return llvm::SmallVector<Value>();
  });
}

/// On a loop, carried on to its branch in LLVM, which PTX calls `nounroll`.
static Attribute neverUnrolled(OpBuilder &b) {
  auto unroll = LLVM::LoopUnrollAttr::get(b.getContext(), b.getBoolAttr(true), {}, {}, {}, {}, {}, {});
  return LLVM::LoopAnnotationAttr::get(b.getContext(), {}, {}, {}, unroll, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});
}

/// From `start` below `end` by `step`, carrying values; `start` is less than `step`. When it `divides`, every thread makes
/// equally many turns, and few turns become straight code.
llvm::SmallVector<Value> GpuLowering::loop(Value start, int64_t end, int64_t step, bool divides, ValueRange carried,
                                           llvm::function_ref<llvm::SmallVector<Value>(Value, ValueRange)> body,
                                           int64_t straight) {
  llvm::SmallVector<Value> values(carried);
  if (divides && end / step <= straight) {
    for (int64_t i = 0; i < end; i += step)
      values = body(i ? arith::AddIOp::create(b, loc, start, constant(i)).getResult() : start, values);
    return values;
  }
  if (end <= step) { // one turn, of some threads
    Value has = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, start, constant(end));
    auto branch = scf::IfOp::create(b, loc, ValueRange(values).getTypes(), has, /*withElseRegion=*/!values.empty());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    llvm::SmallVector<Value> next = body(start, values);
    if (values.empty())
      return {};
    b.setInsertionPointToEnd(branch.thenBlock());
    scf::YieldOp::create(b, loc, next);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, values);
    return llvm::SmallVector<Value>(branch.getResults());
  }
  auto op = scf::ForOp::create(b, loc, start, constant(end), constant(step), values);
  if (straight < kStraight) // nor may the assembler make it straight
    op->setAttr("loop_annotation", neverUnrolled(b));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.getBody());
  values = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!values.empty())
    scf::YieldOp::create(b, loc, values);
  return llvm::SmallVector<Value>(op.getResults());
}

Value GpuLowering::read(Value tensor, AffineMap map, At at) {
  Type element = getElementTypeOrSelf(tensor);
  if (std::optional<double> number = splatOf(tensor))
    return arith::ConstantOp::create(b, loc, FloatAttr::get(element, *number));
  llvm::SmallVector<Value> indices;
  for (unsigned i = 0; i < map.getNumResults(); ++i)
    indices.push_back(at[map.getDimPosition(i)]);
  return load(placeOf(tensor), indices);
}

Value GpuLowering::emitGeneric(linalg::GenericOp op, At at, const Values &values) {
  IRMapping inside = scalars;
  Block *body = op.getBody();
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value known = values.lookup(input);
    inside.map(body->getArgument(i), known ? known : read(input, maps[i], at));
  }
  for (Operation &inner : body->without_terminator()) {
    Value result = inner.getResult(0);
    auto operand = [&](unsigned i) { return inside.lookupOrDefault(inner.getOperand(i)); };
    if (auto index = dyn_cast<linalg::IndexOp>(inner))
      inside.map(result, at[index.getDim()]);
    else if (isa<phi::Exp2ScaledOp>(inner))
      inside.map(result, emitExp2Scaled(b, loc, operand(0), operand(1)));
    else if (isa<phi::LdexpOp>(inner))
      inside.map(result, emitLdexp(b, loc, operand(0), operand(1)));
    else if (Value fast = emitFast(
                 inner, llvm::map_to_vector(inner.getOperands(), [&](Value x) { return inside.lookupOrDefault(x); })))
      inside.map(result, fast);
    else
      b.clone(inner, inside);
  }
  return inside.lookupOrDefault(body->getTerminator()->getOperand(0));
}

void GpuLowering::emitBody(const Cluster &cluster, At at, Values &values) {
  for (Operation *op : cluster.ops)
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      values[generic.getResult(0)] = emitGeneric(generic, at, values);
}

/// Entries at several places: those of one result together, and its 16-bit numbers after it, so that neighbours are one access.
void GpuLowering::storeResults(const Cluster &cluster, llvm::ArrayRef<llvm::SmallVector<Value>> at,
                               llvm::ArrayRef<Values> values) {
  for (Operation *op : cluster.ops) {
    Value result = op->getResult(0);
    if (isa<linalg::ReduceOp>(op) || !cluster.isStored(result))
      continue;
    Place place = placeOf(result);
    for (auto [entry, known] : llvm::zip(at, values))
      memory.store(known.lookup(result), entryAddress(place, entry));
    if (!copies.contains(place.base))
      continue;
    Place copy = copyOf(place);
    for (auto [entry, known] : llvm::zip(at, values))
      memory.store(narrowed(known.lookup(result), copy.element), entryAddress(copy, entry));
  }
}

static bool isSum(linalg::ReduceOp op) { return isa<arith::AddFOp>(op.getCombiner().front().front()); }

/// A running maximum is a number from the start and passes over NaN.
Value GpuLowering::combine(linalg::ReduceOp op, Value running, Value next) {
  if (isSum(op))
    return arith::AddFOp::create(b, loc, running, next);
  Value larger = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, next, running);
  return arith::SelectOp::create(b, loc, larger, next, running);
}

Value GpuLowering::neutral(linalg::ReduceOp op) {
  return arith::ConstantOp::create(
      b, loc, FloatAttr::get(getElementTypeOrSelf(op->getResult(0)), splatOf(op.getInits()[0]).value()));
}

/// How the lanes of a warp share sums: `lanes` of them an entry, so that all threads of the block have work. They are
/// neighbours when neighbours read neighbouring terms, else those of one entry lie a stride apart.
GpuLowering::Team GpuLowering::teamFor(int64_t entries, bool termsAreNeighbours) {
  Team team{Device::kWarp, termsAreNeighbours, {}, {}};
  while (team.lanes > 1 && entries * team.lanes > device.threads)
    team.lanes /= 2;
  Value entriesOfWarp = constant(Device::kWarp / team.lanes), lanes = constant(team.lanes);
  team.entry = termsAreNeighbours ? arith::DivUIOp::create(b, loc, threads.lane, lanes).getResult()
                                  : arith::RemUIOp::create(b, loc, threads.lane, entriesOfWarp).getResult();
  team.part = termsAreNeighbours ? arith::RemUIOp::create(b, loc, threads.lane, lanes).getResult()
                                 : arith::DivUIOp::create(b, loc, threads.lane, entriesOfWarp).getResult();
  return team;
}

/// The same value in every lane of a team, combined in pairs, then pairs of pairs.
Value GpuLowering::acrossTeam(const Team &team, Value value, llvm::function_ref<Value(Value, Value)> combine) {
  const int stride = team.areNeighbours ? 1 : Device::kWarp / team.lanes;
  for (int distance = team.lanes / 2; distance; distance /= 2)
    value = combine(value, threads.exchange(value, distance * stride));
  return value;
}

/// A team for each entry. Lanes without an entry go along for the exchanges: `exists` is false there; it is null where all
/// have one.
void GpuLowering::overTeams(llvm::ArrayRef<int64_t> extents, bool termsAreNeighbours,
                            llvm::function_ref<void(const Team &, At, Value)> body) {
  const int64_t entries = product(extents);
  const Team team = teamFor(entries, termsAreNeighbours);
  const int64_t ofWarp = Device::kWarp / team.lanes, step = device.warps() * ofWarp;
  Value first = arith::MulIOp::create(b, loc, threads.warp, constant(ofWarp));
  loop(first, entries, step, entries % step == 0, {}, [&](Value base, ValueRange) {
    Value entry = arith::AddIOp::create(b, loc, base, team.entry), exists;
    if (entries % ofWarp)
      exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, entry, constant(entries));
    body(team, unflatten(entry, extents), exists);
    return llvm::SmallVector<Value>();
  });
}

/// The sums of a team's part: `term` gives the next values of `starts` at a term.
llvm::SmallVector<Value> GpuLowering::sumParts(const Team &team, int64_t terms, Value exists, ValueRange starts,
                                               llvm::function_ref<llvm::SmallVector<Value>(Value, ValueRange)> term) {
  if (!exists)
    return loop(team.part, terms, team.lanes, terms % team.lanes == 0, starts, term);
  Value end = arith::SelectOp::create(b, loc, exists, constant(terms), constant(0));
  auto op = scf::ForOp::create(b, loc, team.part, end, constant(team.lanes), starts);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.getBody());
  scf::YieldOp::create(b, loc, term(op.getInductionVar(), op.getRegionIterArgs()));
  return llvm::SmallVector<Value>(op.getResults());
}

/// In one lane of a team, if its entry exists.
void GpuLowering::ifFirst(const Team &team, Value exists, llvm::function_ref<void()> body) {
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, team.part, constant(0));
  if (exists)
    isFirst = arith::AndIOp::create(b, loc, isFirst, exists);
  auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  body();
}

void GpuLowering::emitReductions(const Cluster &cluster) {
  llvm::SmallVector<int64_t> outer;
  for (auto [dim, extent] : llvm::enumerate(cluster.extents))
    if (int(dim) != cluster.reduced)
      outer.push_back(extent);
  llvm::SmallVector<linalg::ReduceOp> sums;
  llvm::SmallVector<Value> starts;
  for (Operation *op : cluster.ops)
    if (auto reduce = dyn_cast<linalg::ReduceOp>(op)) {
      sums.push_back(reduce);
      starts.push_back(neutral(reduce));
    }
  const int64_t terms = cluster.extents[cluster.reduced];
  AffineMap identity = b.getMultiDimIdentityMap(cluster.extents.size());
  bool isLast = cluster.reduced + 1 == int(cluster.extents.size());
  overTeams(outer, isLast, [&](const Team &team, At place, Value exists) {
    llvm::SmallVector<Value> totals = sumParts(team, terms, exists, starts, [&](Value term, ValueRange running) {
      llvm::SmallVector<Value> at(place);
      at.insert(at.begin() + cluster.reduced, term);
      Values values;
      emitBody(cluster, at, values);
      storeResults(cluster, {at}, {values});
      llvm::SmallVector<Value> next;
      for (auto [op, sum] : llvm::zip(sums, running)) {
        Value input = op.getInputs()[0], known = values.lookup(input);
        next.push_back(combine(op, sum, known ? known : read(input, identity, at)));
      }
      return next;
    });
    for (auto [op, total] : llvm::zip(sums, totals))
      total = acrossTeam(team, total, [&](Value x, Value y) { return combine(op, x, y); });
    ifFirst(team, exists, [&] {
      for (auto [op, total] : llvm::zip(sums, totals))
        store(total, placeOf(op->getResult(0)), place);
    });
  });
}

} // namespace yaglom::compiler::nvgpu
