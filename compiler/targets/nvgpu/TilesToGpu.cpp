// Tile programs for GPUs: arguments, memory, and the steps that copy. Every step begins at a barrier.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Passes.h"
#include "compiler/formula/Emit.h"
#include "compiler/targets/nvgpu/GpuLowering.h"
#include "compiler/targets/nvgpu/KernelAbi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

GpuLowering::GpuLowering(func::FuncOp program, const Device &device, Products products)
    : TileLowering(program), device(device), threads(b, loc), products(products) {}

unsigned GpuLowering::laneOf(Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  return rank ? rank - 1 : 0;
}

/// The words of KernelAbi.h: sizes, then where this block's part of each operand begins.
void GpuLowering::bindArguments() {
  Block &body = program.getBody().front();
  const int64_t operands = body.getNumArguments() - KernelAbi::kSizes;
  Type word = b.getI64Type();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  code = func::FuncOp::create(b, loc, program.getName(),
                              b.getFunctionType(llvm::SmallVector<Type>(KernelAbi::words(operands), word), {}));
  Block *entry = code.addEntryBlock();
  b.setInsertionPointToStart(entry);
  threads.begin();
  auto argument = [&](int64_t i) -> Value { return entry->getArgument(i); };
  auto asIndex = [&](Value x) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), x).getResult(); };
  auto multiply = [&](Value x, Value y) { return arith::MulIOp::create(b, loc, x, y).getResult(); };
  for (int64_t i = 0; i < KernelAbi::kSizes; ++i)
    scalars.map(body.getArgument(i), asIndex(argument(i)));
  // Division is for 32 bits: nothing here is that many.
  auto divide = [&](Value x, Value y) {
    Type narrow = b.getI32Type();
    Value dividend = arith::TruncIOp::create(b, loc, narrow, x), divisor = arith::TruncIOp::create(b, loc, narrow, y);
    Value quotient = arith::DivUIOp::create(b, loc, dividend, divisor);
    Value rest = arith::RemUIOp::create(b, loc, dividend, divisor);
    return std::pair<Value, Value>{arith::ExtUIOp::create(b, loc, word, quotient),
                                   arith::ExtUIOp::create(b, loc, word, rest)};
  };
  auto [item, part] = divide(threads.block, argument(KernelAbi::Parts));
  auto [batch, head] = divide(item, argument(KernelAbi::Heads));
  bindPart(item, part);
  for (BlockArgument operand : body.getArguments().drop_front(KernelAbi::kSizes)) {
    auto type = cast<RankedTensorType>(operand.getType());
    int64_t at = KernelAbi::kHeaderWords + KernelAbi::kOperandWords * (operand.getArgNumber() - KernelAbi::kSizes);
    Value offset = arith::AddIOp::create(b, loc, multiply(batch, argument(at + 1)), multiply(head, argument(at + 2)));
    auto attr = program.getArgAttrOfType<TypeAttr>(operand.getArgNumber(), kStoredAttr);
    stored[operand] = attr ? attr.getValue() : type.getElementType();
    Value address = memory.move(LLVM::IntToPtrOp::create(b, loc, pointer, argument(at)), stored[operand], offset);
    if (type.hasStaticShape()) {
      places[operand] = rowMajor(address, type, 0);
      continue;
    }
    rowOperands[operand] = {address, asIndex(argument(at + 3))};
    columnStrides[operand] = asIndex(argument(at + 4));
    isAligned[operand] = rowsAreAligned(operand, argument(at + 3), argument(at + 4));
  }
}

/// Parameters that are multiplied as matrices: read from memory once.
void GpuLowering::copyMatrices() {
  for (BlockArgument operand : program.getBody().front().getArguments().drop_front(KernelAbi::kSizes)) {
    auto type = cast<RankedTensorType>(operand.getType());
    if (!type.hasStaticShape() || type.getRank() != 2 ||
        llvm::none_of(operand.getUsers(), [](Operation *user) { return isa<linalg::ContractOp>(user); }))
      continue;
    Place from = placeOf(operand), to = allocate(type, 1, /*dense=*/false);
    copyPlace(from, to);
    places[operand] = to;
  }
}

bool GpuLowering::run(llvm::SmallDenseSet<size_t> &without) {
  withoutCopy = &without;
  bindArguments();
  copyMatrices();
  chooseDealt();
  Block &body = program.getBody().front();
  Clusters clusters(body, sumsProducts());
  lowerBlock(body, clusters);
  moveToRegisters();
  func::ReturnOp::create(b, loc);
  Block &entry = code.getBody().front();
  b.setInsertionPoint(&entry, std::next(Block::iterator(threads.member.getDefiningOp())));
  Value bytes = entry.getArgument(KernelAbi::ScratchBytes);
  Value own = arith::AddIOp::create(b, loc, entry.getArgument(KernelAbi::Scratch),
                                    arith::MulIOp::create(b, loc, threads.block, bytes));
  // LLVM sees where it lies and how it is aligned: neighbours become one access.
  constexpr int64_t kAlignment = 256;
  own = arith::AndIOp::create(b, loc, own, arith::ConstantIntOp::create(b, loc, -kAlignment, 64));
  Value global =
      LLVM::IntToPtrOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), KernelAbi::kGlobalSpace), own);
  Value scratch = LLVM::AddrSpaceCastOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), global);
  llvm::SmallVector<Value> homeless;
  Room room = placeAllocations(code, allocations, scratch, device, homeless);
  for (Value base : homeless)
    without.insert(numbers.lookup(base));
  if (!homeless.empty()) {
    code.erase();
    return false;
  }
  code->setAttr(KernelAbi::kSharedBytes, b.getI64IntegerAttr(room.sharedBytes));
  code->setAttr(KernelAbi::kScratchBytes, b.getI64IntegerAttr(room.scratchBytes));
  program.erase();
  return true;
}

/// Rows are as long as lets a warp that reads a fragment meet each bank once: four words more than a multiple of eight, or, of
/// 16-bit numbers, an odd multiple of eight. Both kinds of numbers of one tile have the same strides.
Place GpuLowering::layout(RankedTensorType type, unsigned lane, bool dense) const {
  Place place;
  place.element = type.getElementType();
  place.sizes.assign(type.getShape().begin(), type.getShape().end());
  place.lane = lane;
  place.padded = false;
  place.strides.assign(type.getRank(), 0);
  if (!type.getRank())
    return place;
  place.strides[lane] = 1;
  int64_t width = type.getDimSize(lane), padded = llvm::alignTo(width, 8);
  if (type.getRank() > 1 && !dense)
    width = isHalf() ? padded + (padded / 8 % 2 ? 0 : 8) : padded + 4;
  for (int axis = type.getRank() - 1; axis >= 0; --axis)
    if (axis != int(lane)) {
      place.strides[axis] = width;
      width *= type.getDimSize(axis);
    }
  return place;
}

/// The base stands for an address that is chosen when all allocations are known.
Place GpuLowering::allocate(RankedTensorType type, unsigned lane, bool dense) {
  Place place = layout(type, lane, dense);
  int64_t entries = 1;
  for (auto [size, stride] : llvm::zip(place.sizes, place.strides))
    entries = std::max(entries, size * stride);
  auto base = [&] { return LLVM::UndefOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext())).getResult(); };
  place.base = base();
  allocations.push_back({place.base, entries * (place.element.getIntOrFloatBitWidth() / 8), false});
  if (size_t number = made++;
      isHalf() && type.getRank() >= 2 && place.element.isF32() && !withoutCopy->contains(number)) {
    Value copy = base();
    allocations.push_back({copy, entries * 2, true});
    copies[place.base] = copy;
    numbers[copy] = number;
  }
  return place;
}

/// The 16-bit numbers beside a place that has them.
Place GpuLowering::copyOf(const Place &place) const {
  Place copy = place;
  copy.base = copies.lookup(place.base);
  copy.element = products == Products::Half ? Type(Float16Type::get(place.element.getContext()))
                                            : Type(BFloat16Type::get(place.element.getContext()));
  return copy;
}

Value GpuLowering::widened(Value x, Type element) {
  return x.getType() == element ? x : arith::ExtFOp::create(b, loc, element, x).getResult();
}

Value GpuLowering::narrowed(Value x, Type stored) {
  return x.getType() == stored ? x : arith::TruncFOp::create(b, loc, stored, x).getResult();
}

Value GpuLowering::load(const Place &place, At at) { return memory.load(entryAddress(place, at), place.element); }

void GpuLowering::store(Value value, const Place &place, At at) {
  memory.store(value, entryAddress(place, at));
  if (!copies.contains(place.base))
    return;
  Place copy = copyOf(place);
  memory.store(narrowed(value, copy.element), entryAddress(copy, at));
}

void GpuLowering::fillPlace(const Place &place, double number) {
  beginStep();
  auto fill = [&](At at) {
    Value value = arith::ConstantOp::create(b, loc, FloatAttr::get(place.element, number));
    store(value, place, at);
  };
  isDealt(place) ? overDealtEntries(place.sizes, fill) : overEntries(place.sizes, fill);
}

void GpuLowering::copyPlace(const Place &from, const Place &to) {
  beginStep();
  auto copy = [&](At at) { store(load(from, at), to, at); };
  isDealt(from) || isDealt(to) ? overDealtEntries(to.sizes, copy) : overEntries(to.sizes, copy);
}

} // namespace yaglom::compiler::nvgpu

namespace yaglom::compiler {

#define GEN_PASS_DEF_TILESTOGPU
#include "compiler/Passes.h.inc"

namespace {

struct TilesToGpuPass : impl::TilesToGpuBase<TilesToGpuPass> {
  using TilesToGpuBase::TilesToGpuBase;
  void runOnOperation() override {
    Result<nvgpu::Device> device = nvgpu::Device::named(architecture);
    if (!device) {
      getOperation().emitError(device.error().what());
      return signalPassFailure();
    }
    Result<yaglom::Schedule> wanted = yaglom::Schedule::parse(schedule);
    if (!wanted) {
      getOperation().emitError(wanted.error().what());
      return signalPassFailure();
    }
    *device = device->with(*wanted);
    OpBuilder b(getOperation().getBodyRegion());
    auto none = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
    LLVM::GlobalOp::create(b, getOperation().getLoc(), none, /*isConstant=*/false, LLVM::Linkage::External,
                           nvgpu::KernelAbi::kShared, Attribute(), /*alignment=*/1024, nvgpu::KernelAbi::kSharedSpace);
    const auto kind = llvm::StringSwitch<std::optional<nvgpu::Products>>(products)
                          .Case("f32", nvgpu::Products::Float)
                          .Case("f16", nvgpu::Products::Half)
                          .Case("bf16", nvgpu::Products::BFloat)
                          .Default(std::nullopt);
    if (!kind) {
      getOperation().emitError("unknown products '") << products << "'; expected f32, f16 or bf16";
      return signalPassFailure();
    }
    for (func::FuncOp function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      // Each turn leaves fewer copies, so this ends.
      llvm::SmallDenseSet<size_t> without;
      while (!nvgpu::GpuLowering(function, *device, *kind).run(without)) {
      }
    }
  }
};

} // namespace

} // namespace yaglom::compiler
