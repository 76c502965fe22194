// Where values live. A value that ends as part of another, or as the next turn of a loop, is made there in the first place.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/TileLowering.h"

using namespace mlir;

namespace yaglom::compiler {

std::optional<double> TileLowering::splatOf(Value value) {
  if (auto fill = value.getDefiningOp<linalg::FillOp>()) {
    if (auto constant = fill.getInputs()[0].getDefiningOp<arith::ConstantOp>())
      return cast<FloatAttr>(constant.getValue()).getValueAsDouble();
  }
  return std::nullopt;
}

/// Whether a view of `value` joins the axis `lane` to another: then nothing may lie between its rows.
static bool collapses(Value value, unsigned lane) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto collapse = dyn_cast<tensor::CollapseShapeOp>(user);
    return collapse && llvm::any_of(collapse.getReassociationIndices(), [&](const ReassociationIndices &group) {
             return group.size() > 1 && llvm::is_contained(group, int64_t(lane));
           });
  });
}

Place TileLowering::placeOf(Value value) {
  if (auto it = places.find(value); it != places.end())
    return it->second;
  Place place = makePlace(value);
  places[value] = place;
  return place;
}

Place TileLowering::makePlace(Value value) {
  if (auto slice = value.getDefiningOp<tensor::ExtractSliceOp>())
    return placeOf(slice.getSource()).part(slice.getStaticOffsets(), slice.getType().getShape());
  if (auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>()) {
    Place place = placeOf(collapse.getSrc());
    llvm::SmallVector<int64_t, 3> sizes(collapse.getResultType().getShape()), strides;
    unsigned lane = 0;
    // The last axis of a group gives the stride: axes that collapse lie inside each other.
    for (auto [i, group] : llvm::enumerate(collapse.getReassociationIndices())) {
      strides.push_back(place.strides[group.back()]);
      if (llvm::is_contained(group, int64_t(place.lane)))
        lane = i;
    }
    place.sizes = sizes;
    place.strides = strides;
    place.lane = lane;
    return place;
  }
  if (auto expand = value.getDefiningOp<tensor::ExpandShapeOp>()) {
    Place place = placeOf(expand.getSrc());
    llvm::ArrayRef<int64_t> sizes = expand.getResultType().getShape();
    llvm::SmallVector<int64_t, 3> strides(sizes.size());
    unsigned lane = 0;
    for (auto [i, group] : llvm::enumerate(expand.getReassociationIndices())) {
      int64_t stride = place.strides[i];
      for (int64_t axis : llvm::reverse(group)) {
        strides[axis] = stride;
        stride *= sizes[axis];
      }
      if (i == place.lane)
        lane = group.back();
    }
    if (sizes[lane] != place.sizes[place.lane])
      place.padded = false; // a row ends where the next begins
    place.sizes.assign(sizes.begin(), sizes.end());
    place.strides = strides;
    place.lane = lane;
    return place;
  }
  if (auto it = claims.find(value); it != claims.end())
    return it->second;
  unsigned lane = laneOf(value);
  Place place = allocate(cast<RankedTensorType>(value.getType()), lane, collapses(value, lane));
  if (std::optional<double> number = splatOf(value))
    fillPlace(place, *number);
  return place;
}

void TileLowering::claim(Value value, const Place &place) { claims.try_emplace(value, place); }

/// Whether the value is made by a step of this kind of block and may be made anywhere.
bool TileLowering::isPrivate(Value value) {
  Operation *op = value.getDefiningOp();
  return op && !places.contains(value) && !claims.contains(value) &&
         isa<linalg::GenericOp, linalg::ContractOp, linalg::ReduceOp, phi::LoadRowsOp, phi::LoadItemOp, phi::StateInOp,
             tensor::InsertSliceOp, scf::ForOp, scf::WhileOp, scf::IfOp>(op);
}

/// From the last insertion back to the first: the whole has one place, each part is made inside of it.
void TileLowering::claimInserts(Block &block, const Clusters &clusters) {
  for (Operation &op : llvm::reverse(block)) {
    auto insert = dyn_cast<tensor::InsertSliceOp>(op);
    if (!insert)
      continue;
    Value whole = insert.getResult(), target = insert.getDest(), part = insert.getSource();
    if (!claims.contains(whole) && !places.contains(whole))
      claim(whole, places.contains(target) && mayOverwrite(target, whole, clusters)
                       ? places.lookup(target)
                       : allocate(insert.getType(), laneOf(whole)));
    Place place = placeOf(whole);
    if (target.getDefiningOp() && !places.contains(target))
      claim(target, place);
    if (isPrivate(part))
      claim(part, place.part(insert.getStaticOffsets(), insert.getSourceType().getShape()));
  }
}

/// The step that makes the entries of `next`; of a chain of insertions, the last one.
static int makerOf(Value next, const Clusters &clusters) { return clusters.indexOf(next); }

/// Whether a use of `old` reads each entry before the step writes the same entry.
static bool readsEntryByEntry(OpOperand &use, const Clusters &clusters, int step) {
  Operation *user = use.getOwner();
  if (step < 0 || step >= int(clusters.items.size()))
    return false;
  const Item &item = clusters.items[step];
  if (!item.isCluster())
    return item.op == user; // a loop or branch that takes the value over
  auto linalgOp = dyn_cast<linalg::LinalgOp>(user);
  return linalgOp && isa<linalg::GenericOp>(user) && linalgOp.getMatchingIndexingMap(&use).isIdentity();
}

/// Whether `next` may be made where `old` lives: every other use of `old` comes before, or meets it entry by entry.
bool TileLowering::mayOverwrite(Value old, Value next, const Clusters &clusters) {
  int maker = makerOf(next, clusters);
  for (OpOperand &use : old.getUses()) {
    Operation *user = use.getOwner();
    if (isa<scf::YieldOp, scf::ConditionOp>(user) || isa<tensor::InsertSliceOp>(user))
      continue;
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user)) {
      // A part that is read by the step that makes the same part anew.
      for (OpOperand &partUse : slice.getResult().getUses()) {
        int step = clusters.indexOfUser(partUse.getOwner());
        bool same = false;
        for (auto insert = next.getDefiningOp<tensor::InsertSliceOp>(); insert;
             insert = insert.getDest().getDefiningOp<tensor::InsertSliceOp>())
          same |= insert.getStaticOffsets() == slice.getStaticOffsets() && clusters.indexOf(insert.getSource()) == step;
        if (!same || !readsEntryByEntry(partUse, clusters, step))
          return false;
      }
      continue;
    }
    int step = clusters.indexOfUser(user);
    if (step < maker || (step == maker && readsEntryByEntry(use, clusters, step)))
      continue;
    return false;
  }
  return true;
}

/// Whether nothing but `op` reads the value from `op` on. What a branch reads inside of itself it may also replace; a loop
/// reads it again in every turn.
bool TileLowering::isDeadAfter(Value value, Operation *op, const Clusters &clusters) {
  if (value.getParentBlock() != op->getBlock())
    return false;
  int own = clusters.indexOfUser(op);
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    return use.getOwner() == op || clusters.indexOfUser(use.getOwner()) < own ||
           (isa<scf::IfOp>(op) && op->isProperAncestor(use.getOwner()));
  });
}

void TileLowering::claimYields(ValueRange olds, ValueRange yields, llvm::ArrayRef<Place> carried,
                               const Clusters &clusters) {
  for (auto [old, next, place] : llvm::zip(olds, yields, carried))
    if (isPrivate(next) && mayOverwrite(old, next, clusters))
      claim(next, place);
}

} // namespace yaglom::compiler
