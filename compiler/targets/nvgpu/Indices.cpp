// Indices as a part that a thread computes and a constant: constants end in the offsets of accesses, the rest is shared.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/GpuLowering.h"

using namespace mlir;

namespace yaglom::compiler::nvgpu {

/// `value` is a sum or a product by constants of parts: the constant is taken out of it. What is left stands where `value`
/// does, so that it can be used wherever `value` can.
Index GpuLowering::split(Value value) {
  if (auto known = splits.find(value); known != splits.end())
    return known->second;
  Index result{value, 0};
  OpBuilder::InsertionGuard guard(b);
  if (auto number = value.getDefiningOp<arith::ConstantIndexOp>()) {
    result = {Value(), number.value()};
  } else if (auto sum = value.getDefiningOp<arith::AddIOp>()) {
    Index x = split(sum.getLhs()), y = split(sum.getRhs());
    result.constant = x.constant + y.constant;
    b.setInsertionPoint(sum);
    if (result.constant || !x.value || !y.value)
      result.value = x.value && y.value ? arith::AddIOp::create(b, loc, x.value, y.value).getResult()
                     : x.value          ? x.value
                                        : y.value;
  } else if (auto product = value.getDefiningOp<arith::MulIOp>()) {
    Index x = split(product.getLhs()), factor = split(product.getRhs());
    b.setInsertionPoint(product);
    if (!factor.value && x.constant)
      result = {x.value ? arith::MulIOp::create(b, loc, x.value, product.getRhs()).getResult() : Value(),
                x.constant * factor.constant};
  }
  splits[value] = result;
  return result;
}

Value GpuLowering::joined(Index index) {
  if (!index.value)
    return constant(index.constant);
  return index.constant ? arith::AddIOp::create(b, loc, index.value, constant(index.constant)).getResult()
                        : index.value;
}

/// The part that threads compute is made once a block: entries that differ by constants share it.
Value GpuLowering::entryAddress(const Place &place, At at) {
  llvm::SmallVector<Index> indices = llvm::map_to_vector(at, [&](Value index) { return split(index); });
  std::vector<const void *> key{b.getInsertionBlock(), place.base.getAsOpaquePointer()};
  int64_t distance = place.offset;
  for (auto [index, stride] : llvm::zip(indices, place.strides)) {
    distance += index.constant * stride;
    index.constant = 0;
    key.push_back(index.value.getAsOpaquePointer());
    key.push_back(reinterpret_cast<const void *>(stride));
  }
  Value &shared = addresses[std::move(key)];
  if (!shared) {
    Place start = place;
    start.offset = 0;
    shared = memory.address(start, indices);
  }
  std::optional<int64_t> slot = slotOf(place, at);
  return slot ? slotAddress(shared, place.element, distance, *slot) : memory.move(shared, place.element, distance);
}

/// Where an entry lies, in row-major order. A constant that is whole rows stays one.
llvm::SmallVector<Value> GpuLowering::unflatten(Value entry, llvm::ArrayRef<int64_t> extents) {
  llvm::SmallVector<Value> at(extents.size());
  Index rest = split(entry);
  for (int axis = int(extents.size()) - 1; axis > 0; --axis) {
    const int64_t extent = extents[axis];
    if (rest.constant % extent)
      rest = {joined(rest), 0};
    Value value = rest.value ? rest.value : constant(0);
    at[axis] = arith::RemUIOp::create(b, loc, value, constant(extent));
    rest = {arith::DivUIOp::create(b, loc, value, constant(extent)), rest.constant / extent};
  }
  if (!at.empty())
    at[0] = joined(rest);
  return at;
}

} // namespace yaglom::compiler::nvgpu
