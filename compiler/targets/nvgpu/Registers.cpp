// What a loop carries in registers: each entry belongs to the thread that the products give it to.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/GpuLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

/// On the address of an entry that the deal of its tile gives to this thread: which of the thread's entries it is.
static constexpr llvm::StringLiteral kSlot = "phi.slot";

/// Whether every step may read `value` entry by entry in the order of products: pointwise, or by its 16-bit numbers. Loops and
/// branches carry it on: `carried` collects it under all its names.
bool GpuLowering::isReadByEntries(Value value, llvm::SetVector<Value> &carried) {
  if (!carried.insert(value))
    return true;
  auto goesOnAs = [&](ValueRange names, unsigned number) { return isReadByEntries(names[number], carried); };
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    const unsigned number = use.getOperandNumber();
    if (auto generic = dyn_cast<linalg::GenericOp>(user))
      return generic.getMatchingIndexingMap(&use).isIdentity();
    if (auto contract = dyn_cast<linalg::ContractOp>(user)) {
      const Products kind = productsOf(contract);
      return contract.isDpsInit(&use) || (matricesOf(contract) && (kind == Products::Half || kind == Products::BFloat));
    }
    if (auto loop = dyn_cast<scf::ForOp>(user)) {
      const unsigned first = loop.getNumControlOperands();
      return goesOnAs(loop.getRegionIterArgs(), number - first) && goesOnAs(loop.getResults(), number - first);
    }
    if (auto loop = dyn_cast<scf::WhileOp>(user))
      return goesOnAs(loop.getBeforeArguments(), number);
    if (isa<scf::ConditionOp>(user)) {
      auto loop = cast<scf::WhileOp>(user->getParentOp());
      return goesOnAs(loop.getAfterArguments(), number - 1) && goesOnAs(loop.getResults(), number - 1);
    }
    if (isa<scf::YieldOp>(user)) // a loop's next turn has a name already
      return !isa<scf::IfOp>(user->getParentOp()) || goesOnAs(user->getParentOp()->getResults(), number);
    return isa<phi::StateOutOp>(user);
  });
}

/// The states of loops whose entries stay with one thread each, as far as there are registers.
void GpuLowering::chooseDealt() {
  std::vector<llvm::SetVector<Value>> states;
  program.walk([&](Operation *op) {
    if (!isa<phi::StateInOp, scf::ForOp>(op))
      return;
    for (Value result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      llvm::SetVector<Value> carried;
      if (type && isDealable(type.getShape()) &&
          llvm::none_of(states, [&](const auto &state) { return state.contains(result); }) &&
          isReadByEntries(result, carried))
        states.push_back(std::move(carried));
    }
  });
  int64_t left = device.stateRegisters(int64_t(states.size()));
  for (const llvm::SetVector<Value> &state : states) {
    const int64_t own = cast<RankedTensorType>(state.front().getType()).getNumElements() / device.threads;
    if (own > left)
      continue;
    left -= own;
    dealt.insert(state.begin(), state.end());
  }
}

/// Whether each thread gets equally many entries of such a tile, and the same ones in every step.
bool GpuLowering::isDealable(llvm::ArrayRef<int64_t> extents) const {
  if (!isHalf() || extents.size() != 2)
    return false;
  const WarpTile tile = chooseTile(extents);
  const int64_t tiles = extents[0] / tile.rows() * (extents[1] / tile.columns());
  return extents[0] % tile.rows() == 0 && extents[1] % tile.columns() == 0 && tiles % device.warps() == 0 &&
         tiles / device.warps() <= kStraight;
}

bool GpuLowering::isDealt(const Place &place) const {
  return place.offset == 0 && isDealable(place.sizes) && llvm::any_of(dealt, [&](Value value) {
           auto known = places.find(value);
           return known != places.end() && known->second.base == place.base;
         });
}

/// Each warp's tiles, one after the other.
void GpuLowering::overTiles(llvm::ArrayRef<int64_t> extents, const WarpTile &tile,
                            llvm::function_ref<void(Value, Value)> body) {
  const int64_t down = llvm::divideCeil(extents[0], tile.rows()), across = llvm::divideCeil(extents[1], tile.columns());
  slots.clear();
  slotsOf = isDealable(extents) ? llvm::SmallVector<int64_t>(extents) : llvm::SmallVector<int64_t>();
  loop(threads.warp, down * across, device.warps(), down * across % device.warps() == 0, {},
       [&](Value number, ValueRange) {
         llvm::SmallVector<Value> at = unflatten(number, {down, across});
         body(arith::MulIOp::create(b, loc, at[0], constant(tile.rows())),
              arith::MulIOp::create(b, loc, at[1], constant(tile.columns())));
         return llvm::SmallVector<Value>();
       });
}

/// This thread's entries of the tile that begins at `row` and `column`, in the order of the accumulators.
llvm::SmallVector<llvm::SmallVector<Value>> GpuLowering::entriesOf(const WarpTile &tile, Value row, Value column) {
  auto plus = [&](Value x, Value y) { return arith::AddIOp::create(b, loc, x, y).getResult(); };
  Value firstRow = plus(row, threads.group);
  Value firstColumn = plus(column, arith::MulIOp::create(b, loc, threads.member, constant(2)));
  llvm::SmallVector<llvm::SmallVector<Value>> at;
  for (int64_t i = 0; i < tile.entries(); ++i) {
    const int64_t block = i / WarpTile::kEntries, entry = i % WarpTile::kEntries;
    at.push_back({plus(firstRow, constant(block / tile.blockColumns * WarpTile::kRows + entry / 2 * 8)),
                  plus(firstColumn, constant(block % tile.blockColumns * WarpTile::kColumns + entry % 2))});
    if (!slotsOf.empty())
      slots.insert({{at.back()[0], at.back()[1]}, int64_t(slots.size())});
  }
  return at;
}

void GpuLowering::overDealtEntries(llvm::ArrayRef<int64_t> extents, llvm::function_ref<void(At)> body) {
  const WarpTile tile = chooseTile(extents);
  overTiles(extents, tile, [&](Value row, Value column) {
    for (const llvm::SmallVector<Value> &at : entriesOf(tile, row, column))
      body(at);
  });
}

/// Which of this thread's entries lies at `at`, if it is its own by the deal of its tile.
std::optional<int64_t> GpuLowering::slotOf(const Place &place, At at) const {
  if (at.size() != 2 || !llvm::equal(place.sizes, slotsOf))
    return std::nullopt;
  auto slot = slots.find({at[0], at[1]});
  return slot != slots.end() && isDealt(place) ? std::optional(slot->second) : std::nullopt;
}

Value GpuLowering::slotAddress(Value base, Type element, int64_t distance, int64_t slot) {
  auto address =
      LLVM::GEPOp::create(b, loc, base.getType(), element, base, llvm::ArrayRef<LLVM::GEPArg>{int32_t(distance)});
  address->setAttr(kSlot, b.getI32IntegerAttr(int32_t(slot)));
  return address;
}

/// Whether everything at `address` is read and written by the threads that entries belong to.
static bool hasOnlySlots(Value address, llvm::SmallVectorImpl<LLVM::GEPOp> &entries) {
  return llvm::all_of(address.getUsers(), [&](Operation *user) {
    auto moved = dyn_cast<LLVM::GEPOp>(user);
    if (!moved || !moved->hasAttr(kSlot))
      return moved && hasOnlySlots(moved, entries);
    entries.push_back(moved);
    return true;
  });
}

/// Each thread's entries become variables of its own, which LLVM turns into registers. What some step reads otherwise stays in
/// memory.
void GpuLowering::moveToRegisters() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(threads.member);
  for (Value value : dealt) {
    const Place place = places.lookup(value);
    Allocation *allocation =
        llvm::find_if(allocations, [&](const Allocation &each) { return each.base == place.base; });
    llvm::SmallVector<LLVM::GEPOp> entries;
    if (allocation == allocations.end() || !hasOnlySlots(allocation->base, entries))
      continue; // another name of the same state, or one that was made elsewhere
    auto entriesType = LLVM::LLVMArrayType::get(place.element, place.sizes[0] * place.sizes[1] / device.threads);
    Value own = LLVM::AllocaOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), entriesType,
                                       arith::ConstantIntOp::create(b, loc, 1, 32));
    for (LLVM::GEPOp entry : entries) {
      const auto slot = int32_t(entry->getAttrOfType<IntegerAttr>(kSlot).getInt());
      OpBuilder at(entry);
      entry->replaceAllUsesWith(LLVM::GEPOp::create(at, entry.getLoc(), own.getType(), place.element, own,
                                                    llvm::ArrayRef<LLVM::GEPArg>{slot}));
      entry.erase();
    }
    allocations.erase(allocation);
  }
}

} // namespace yaglom::compiler::nvgpu
