// Runs the reference's allocation and Gram-Schmidt, one head at a time.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Prepare.h"

#include "compiler/targets/reference/SamplerFunctions.h"
#include "compiler/targets/reference/Wide.h"

namespace yaglom::runtime {
namespace {

using Rows = reference::Value<reference::Wide>;

/// Head `head` of a tensor [H, shape...], or all of a shared one.
Rows headOf(const Tensor &tensor, int64_t head, bool shared, std::vector<int64_t> shape, int64_t rows) {
  Rows result(std::move(shape), rows);
  const int64_t count = static_cast<int64_t>(result.data.size());
  for (int64_t i = 0; i < count; ++i)
    result.data[static_cast<std::size_t>(i)] = reference::Wide(tensor.at((shared ? 0 : head * count) + i));
  return result;
}

/// A parameter of a sampler: [H, Q, ...], or [Q, ...] when the sampler is shared.
Rows parameterOf(const Tensor &tensor, int64_t head, bool shared) {
  const Shape &shape = tensor.shape();
  return headOf(tensor, head, shared, {shape.begin() + (shared ? 0 : 1), shape.end()}, Rows::kConstant);
}

} // namespace

Tensor prepare(const compiler::PreparedOperand &operand, const HeadTensor &info, const Tensor &noise,
               const Parameters &parameters, int64_t heads) {
  Tensor result(noise.dtype(), info.shapeFor(heads));
  const int64_t rows = info.shape[0];
  for (int64_t head = 0; head < (info.shared ? 1 : heads); ++head) {
    Rows made;
    if (operand.kind == compiler::PreparedOperand::Kind::Orthogonalize) {
      made = reference::orthogonalize(headOf(noise, head, info.shared, {info.shape[1]}, rows));
    } else {
      const Tensor &table = parameters[operand.table], &alpha = parameters[operand.alpha];
      const bool shared = alpha.shape().size() == 1; // [Q]; a draw may have a copy for each head of a shared sampler
      made = reference::component(parameterOf(table, head, shared), parameterOf(alpha, head, shared), rows);
    }
    for (int64_t i = 0; i < info.elements(); ++i)
      result.set(head * info.elements() + i, made.data[static_cast<std::size_t>(i)].toDouble());
  }
  return result;
}

std::vector<int64_t> allocate(const Tensor &alpha, int64_t head, int64_t count) {
  const bool shared = alpha.shape().size() == 1;
  const Rows weights = parameterOf(alpha, head, shared);
  Rows numbers(weights.shape, Rows::kConstant);
  for (std::size_t i = 0; i < numbers.data.size(); ++i)
    numbers.data[i] = reference::Wide(static_cast<double>(i));
  std::vector<int64_t> components;
  for (const reference::Wide &number : reference::component(numbers, weights, count).data)
    components.push_back(static_cast<int64_t>(number.toDouble()));
  return components;
}

} // namespace yaglom::runtime
