// What is never needed at the same time may share memory.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/Room.h"

#include "compiler/targets/nvgpu/KernelAbi.h"
#include "compiler/targets/nvgpu/Threads.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

namespace {

/// Everything that reads or writes at an address or at one that is made from it.
void overAccesses(Value address, llvm::function_ref<void(Operation *)> body) {
  for (Operation *user : address.getUsers())
    if (isa<LLVM::GEPOp, LLVM::AddrSpaceCastOp>(user))
      overAccesses(user->getResult(0), body);
    else
      body(user);
}

/// Steps are counted in the order of the text; a step lasts from its barrier to the next.
class Steps {
public:
  explicit Steps(func::FuncOp code) { count(code); }

  struct Span {
    int first, last;
    bool overlaps(Span other) const { return first <= other.last && other.first <= last; }
  };
  /// From the first to the last use; a use in a loop that the allocation is outside of lasts as long as the loop.
  Span of(Value base) const {
    Span span{steps, 0};
    Block *home = base.getDefiningOp()->getBlock();
    overAccesses(base, [&](Operation *user) {
      Operation *ancestor = home->findAncestorOpInBlock(*user);
      Span own = spans.at(user);
      for (Operation *loop = user->getParentOp(); loop && ancestor->isAncestor(loop); loop = loop->getParentOp())
        if (isa<LoopLikeOpInterface>(loop))
          own = spans.at(loop);
      span = {std::min(span.first, own.first), std::max(span.last, own.last)};
    });
    return span;
  }

private:
  void count(Operation *op) {
    steps += Threads::isBarrier(op);
    int first = steps;
    for (Region &region : op->getRegions())
      for (Operation &inner : region.getOps())
        count(&inner);
    spans.insert({op, {first, steps}});
  }

  int steps = 0;
  llvm::DenseMap<Operation *, Span> spans;
};

struct Lease {
  Steps::Span span;
  int64_t offset, bytes;
};

/// The lowest offset at which nothing that lives at the same time lies, or -1 above `limit`.
int64_t findRoom(llvm::ArrayRef<Lease> taken, Steps::Span span, int64_t bytes, int64_t limit) {
  constexpr int64_t kAlignment = 128;
  int64_t offset = 0;
  for (const Lease &lease : taken) // in the order of offsets
    if (lease.span.overlaps(span) && offset + bytes > lease.offset && lease.offset + lease.bytes > offset)
      offset = llvm::alignTo(lease.offset + lease.bytes, kAlignment);
  return offset + bytes <= limit ? offset : -1;
}

/// What a step reads or writes: bytes of one memory.
struct Access {
  const void *memory;
  int64_t first, end;
  bool isWrite;
  bool conflicts(const Access &other) const {
    return memory == other.memory && (isWrite || other.isWrite) && first < other.end && other.first < end;
  }
};

/// Where an address comes from, before anything is added to it.
Value rootOf(Value address) {
  while (Operation *op = address.getDefiningOp()) {
    if (!isa<LLVM::GEPOp, LLVM::AddrSpaceCastOp>(op))
      break;
    address = op->getOperand(0);
  }
  return address;
}

/// Removes the barriers that nothing needs: no access since the last one conflicts with one of their steps. Where control flow
/// begins or ends, a barrier stays.
void dropBarriers(func::FuncOp code, llvm::function_ref<Access(Value)> bytesAt) {
  llvm::SmallVector<Operation *> barriers;
  std::vector<llvm::SmallVector<Access>> steps;
  code.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (Threads::isBarrier(op)) {
      barriers.push_back(op);
      steps.emplace_back();
    }
    if (steps.empty())
      return;
    auto add = [&](Value address, bool isWrite) {
      Access access = bytesAt(rootOf(address));
      access.isWrite = isWrite;
      steps.back().push_back(access);
    };
    if (auto load = dyn_cast<LLVM::LoadOp>(op))
      add(load.getAddr(), false);
    else if (auto store = dyn_cast<LLVM::StoreOp>(op))
      add(store.getAddr(), true);
    else if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op); call && call.getIntrin().contains("ldmatrix"))
      add(call.getArgs()[0], false);
    else if (Threads::isCopy(op))
      add(op->getOperand(0), true);
  });
  llvm::SmallVector<Access> since;
  Block *block = nullptr;
  for (auto [barrier, step] : llvm::zip(barriers, steps)) {
    bool isNeeded = barrier->getBlock() != block;
    block = barrier->getBlock();
    for (const Access &now : step)
      isNeeded |= llvm::any_of(since, [&](const Access &before) { return before.conflicts(now); });
    if (isNeeded)
      since.clear();
    else
      barrier->erase();
    llvm::append_range(since, step);
  }
}

/// Whether something reads what lies at an address, or at one that is made from it.
bool isRead(Value address) {
  return llvm::any_of(address.getUsers(), [&](Operation *user) {
    if (isa<LLVM::GEPOp, LLVM::AddrSpaceCastOp>(user))
      return isRead(user->getResult(0));
    auto store = dyn_cast<LLVM::StoreOp>(user);
    return store ? store.getValue() == address : !Threads::isCopy(user);
  });
}

void eraseUses(Value address) {
  for (Operation *user : llvm::make_early_inc_range(address.getUsers())) {
    if (isa<LLVM::GEPOp, LLVM::AddrSpaceCastOp>(user))
      eraseUses(user->getResult(0));
    user->erase();
  }
}

} // namespace

Room placeAllocations(func::FuncOp code, const Allocations &allocations, Value scratch, const Device &device,
                      llvm::SmallVectorImpl<Value> &homeless) {
  Allocations needed;
  for (Allocation allocation : allocations)
    if (isRead(allocation.base)) {
      needed.push_back(allocation);
    } else {
      eraseUses(allocation.base);
      allocation.base.getDefiningOp()->erase();
    }
  Steps steps(code);
  OpBuilder b(code.getContext());
  b.setInsertionPointAfterValue(scratch);
  Location loc = code.getLoc();
  auto generic = LLVM::LLVMPointerType::get(b.getContext());
  Value shared = LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), KernelAbi::kSharedSpace),
                                           KernelAbi::kShared);
  Value sharedBase = LLVM::AddrSpaceCastOp::create(b, loc, generic, shared);
  Room room;
  llvm::SmallVector<Lease> inShared, inScratch; // in the order of offsets
  // What must lie in shared memory comes first, then what is used most for its size.
  llvm::DenseMap<Value, double> weights;
  for (const Allocation &allocation : needed) {
    int64_t accesses = 0;
    overAccesses(allocation.base, [&](Operation *) { ++accesses; });
    weights[allocation.base] = double(accesses) / double(allocation.bytes);
  }
  llvm::stable_sort(needed, [&](const Allocation &x, const Allocation &y) {
    return x.isShared != y.isShared ? x.isShared : weights.lookup(x.base) > weights.lookup(y.base);
  });
  auto insert = [](llvm::SmallVector<Lease> &leases, const Lease &lease) {
    leases.insert(llvm::upper_bound(leases, lease, [](const Lease &x, const Lease &y) { return x.offset < y.offset; }),
                  lease);
  };
  struct Home {
    const llvm::SmallVector<Lease> *memory;
    int64_t offset, bytes;
  };
  llvm::DenseMap<Value, Home> homes;
  for (Allocation &allocation : needed) {
    Steps::Span span = steps.of(allocation.base);
    int64_t offset = findRoom(inShared, span, allocation.bytes, device.sharedBytes);
    bool isShared = offset >= 0;
    if (!isShared && allocation.isShared)
      homeless.push_back(allocation.base);
    if (!isShared)
      offset = findRoom(inScratch, span, allocation.bytes, INT64_MAX);
    insert(isShared ? inShared : inScratch, {span, offset, allocation.bytes});
    homes[allocation.base] = {isShared ? &inShared : &inScratch, offset, allocation.bytes};
    int64_t &end = isShared ? room.sharedBytes : room.scratchBytes;
    end = std::max<int64_t>(end, llvm::alignTo(offset + allocation.bytes, 256));
  }
  if (!homeless.empty())
    return room;
  dropBarriers(code, [&](Value root) -> Access {
    auto home = homes.find(root);
    if (home == homes.end())
      return {root.getAsOpaquePointer(), 0, 1, false}; // an operand of the caller
    return {home->second.memory, home->second.offset, home->second.offset + home->second.bytes, false};
  });
  for (Allocation &allocation : needed) {
    const Home &home = homes.find(allocation.base)->second;
    Value address = LLVM::GEPOp::create(b, loc, generic, b.getI8Type(), home.memory == &inShared ? sharedBase : scratch,
                                        llvm::ArrayRef<LLVM::GEPArg>{int32_t(home.offset)});
    allocation.base.replaceAllUsesWith(address);
    allocation.base.getDefiningOp()->erase();
  }
  return room;
}

} // namespace yaglom::compiler::nvgpu
