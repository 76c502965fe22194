// The checks before a launch. Their texts are part of the API: tests/unit/runtime holds each of them.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Arguments.h"

#include "runtime/DeviceParameters.h"
#include "runtime/GpuDevice.h"
#include "runtime/Overlap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace yaglom::runtime {
namespace {

constexpr int64_t kUnbound = -1;

[[noreturn]] void fail(const std::string &name, const std::string &what) {
  throw Error(fmt::format("argument '{}': {}", name, what));
}

std::string toText(const Shape &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Sizes as the arguments bind them, one after the other.
class ForwardCheck {
public:
  explicit ForwardCheck(const Compiled &compiled) : compiled(compiled) {}

  void checkTensor(const std::string &name, const TensorRef &tensor, Side side, const std::vector<int64_t> &row) {
    if (tensor.dtype != compiled.options.dtype)
      fail(name, fmt::format("expected {}, found {}", toText(compiled.options.dtype), toText(tensor.dtype)));
    checkShape(name, tensor, side, row);
    if (checkMemory(name, tensor))
      checkPlace(compiled, name, tensor.device, tensor.data);
  }

  Sizes sizes() const {
    const auto known = [](int64_t size) { return std::max<int64_t>(size, 0); };
    return {known(batch), known(heads), known(queryLength), known(keyLength)};
  }

private:
  int64_t &lengthOf(Side side) { return side == Side::Key && !compiled.equalLengths ? keyLength : queryLength; }

  void checkShape(const std::string &name, const TensorRef &tensor, Side side, const std::vector<int64_t> &row) {
    const Shape &shape = tensor.shape;
    if (tensor.strides.size() != shape.size())
      fail(name, fmt::format("expected {} strides, found {}", shape.size(), tensor.strides.size()));
    int64_t &length = lengthOf(side);
    const bool fits = shape.size() == 3 + row.size() && (row.empty() || shape[3] == row[0]) &&
                      (batch == kUnbound || shape[0] == batch) && (heads == kUnbound || shape[1] == heads) &&
                      (length == kUnbound || shape[2] == length);
    if (!fits)
      fail(name, fmt::format("expected shape {}, found {}", expectedShape(shape, side, row), toText(shape)));
    checkSizes(name, shape);
    batch = shape[0];
    heads = shape[1];
    length = shape[2];
  }

  /// Batch and heads as numbers once an earlier argument has fixed them; a length only when it is what disagrees.
  std::string expectedShape(const Shape &found, Side side, const std::vector<int64_t> &row) {
    const int64_t length = lengthOf(side);
    const bool disagrees = length != kUnbound && found.size() == 3 + row.size() && found[2] != length;
    const std::string symbol = side == Side::Key && !compiled.equalLengths ? "M" : "N";
    std::string text = "[" + (batch == kUnbound ? "B" : std::to_string(batch));
    text += ", " + (heads == kUnbound ? "H" : std::to_string(heads));
    text += ", " + (disagrees ? std::to_string(length) : symbol);
    return text + (row.empty() ? "]" : fmt::format(", {}]", row[0]));
  }

  static void checkSizes(const std::string &name, const Shape &shape) {
    int64_t elements = 1;
    for (int64_t size : shape) {
      if (size < 0)
        fail(name, fmt::format("shape {} has a negative size", toText(shape)));
      // Sixteen bytes an element and a few copies still fit 64 bits.
      if (size > 0 && (__builtin_mul_overflow(elements, size, &elements) || elements > INT64_MAX / 64))
        fail(name, fmt::format("shape {} has too many elements", toText(shape)));
    }
  }

  /// False when there is none.
  static bool checkMemory(const std::string &name, const TensorRef &tensor) {
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      if (tensor.shape[axis] > 1 && tensor.strides[axis] < 0)
        fail(name, fmt::format("stride {} of axis {} is negative", tensor.strides[axis], axis));
    const int64_t elements = extent(tensor);
    if (elements == 0)
      return false;
    if (elements < 0)
      fail(name, fmt::format("strides {} reach beyond the address space", toText(tensor.strides)));
    if (!tensor.data)
      fail(name, "data is null");
    if (reinterpret_cast<uintptr_t>(tensor.data) % sizeOf(tensor.dtype) != 0)
      fail(name, fmt::format("data is not aligned to its {}-byte elements", sizeOf(tensor.dtype)));
    return true;
  }

  const Compiled &compiled;
  int64_t batch = kUnbound;
  int64_t heads = kUnbound;
  int64_t queryLength = kUnbound;
  int64_t keyLength = kUnbound;
};

/// The output is written by all threads at a time, while the inputs are still read.
void checkOutput(const TensorRef &output, const std::vector<InputInfo> &inputInfos, std::span<const TensorRef> inputs) {
  if (!output.writable)
    fail("O", "expected writable memory, found a pointer to const");
  if (overlapsItself(output))
    fail("O", fmt::format("elements overlap: shape {}, strides {}", toText(output.shape), toText(output.strides)));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (overlap(output, inputs[i]))
      fail("O", fmt::format("overlaps argument '{}'", inputInfos[i].name));
}

bool bytesMeet(const TensorRef &output, const HeadMemory &tensor) {
  const auto begin = reinterpret_cast<uintptr_t>(output.data);
  const auto other = reinterpret_cast<uintptr_t>(tensor.data);
  const std::size_t bytes = static_cast<std::size_t>(extent(output)) * sizeOf(output.dtype);
  return tensor.device == output.device && begin < other + bytesOf(tensor.dtype, *tensor.shape) &&
         other < begin + bytes;
}

bool fits(const HeadTensor &expected, const Shape &shape, int64_t heads) {
  const std::size_t leading = expected.shared ? 0 : 1;
  return shape.size() == leading + expected.shape.size() && (expected.shared || shape[0] == heads) &&
         std::equal(expected.shape.begin(), expected.shape.end(), shape.begin() + leading);
}

} // namespace

void checkPlace(const Compiled &compiled, const std::string &name, int device, const void *data) {
  const int wanted = compiled.device ? compiled.device->ordinal() : TensorRef::kHost;
  if (device != wanted)
    fail(name, fmt::format("expected {}, found {}", placeText(wanted), placeText(device)));
  if (compiled.device)
    compiled.device->checkPointer(name, data);
}

void checkStream(const Compiled &compiled, const void *stream) {
  if (stream && (!compiled.device || compiled.device->ordinal() == TensorRef::kHost))
    fail("stream", "expected none (null): the kernel runs on the host");
}

void checkHeadTensor(const HeadTensor &expected, const Tensor *tensor, int64_t heads, DType dtype) {
  checkHeadTensor(expected, tensor ? std::optional<HeadMemory>(*tensor) : std::nullopt, heads, dtype);
}

void checkHeadTensor(const HeadTensor &expected, const std::optional<HeadMemory> &tensor, int64_t heads, DType dtype) {
  if (!tensor)
    fail(expected.name, fmt::format("missing; expected shape {}", toText(expected.shapeFor(heads))));
  if (tensor->dtype != dtype)
    fail(expected.name, fmt::format("expected {}, found {}", toText(dtype), toText(tensor->dtype)));
  if (!fits(expected, *tensor->shape, heads))
    fail(expected.name,
         fmt::format("expected shape {}, found {}", toText(expected.shapeFor(heads)), toText(*tensor->shape)));
}

/// What both directions take; `name` is the argument with the shape of the output.
static Sizes checkArguments(const Compiled &compiled, std::span<const TensorRef> inputs, const HeadTensors &parameters,
                            const std::string &name, const TensorRef &output) {
  const std::vector<InputInfo> &infos = compiled.instance.inputs;
  if (inputs.size() != infos.size()) {
    std::vector<std::string> names;
    for (const InputInfo &info : infos)
      names.push_back("'" + info.name + "'");
    throw Error(fmt::format("expected {} inputs ({}), found {}", infos.size(), fmt::join(names, ", "), inputs.size()));
  }
  ForwardCheck check(compiled);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check.checkTensor(infos[i].name, inputs[i], infos[i].side, infos[i].shape);
  check.checkTensor(name, output, Side::Query, compiled.instance.output);
  Sizes sizes = check.sizes();
  if (compiled.equalLengths)
    sizes.keyLength = sizes.queryLength;
  for (std::size_t index : compiled.forwardTensors) {
    const HeadTensor &info = compiled.headTensors[index];
    const std::optional<HeadMemory> tensor = parameters.find(info.name);
    checkHeadTensor(info, tensor, sizes.heads, compiled.parameterType());
    if (!parameters.areOnHost() && tensor->data)
      checkPlace(compiled, info.name, tensor->device, tensor->data);
  }
  return sizes;
}

Sizes checkForward(const Compiled &compiled, std::span<const TensorRef> inputs, const HeadTensors &parameters,
                   const TensorRef &output) {
  const Sizes sizes = checkArguments(compiled, inputs, parameters, "O", output);
  checkOutput(output, compiled.instance.inputs, inputs);
  for (std::size_t index : compiled.forwardTensors)
    if (const std::string &name = compiled.headTensors[index].name; bytesMeet(output, *parameters.find(name)))
      fail("O", fmt::format("overlaps argument '{}'", name));
  return sizes;
}

Sizes checkBackward(const Compiled &compiled, std::span<const TensorRef> inputs, const HeadTensors &parameters,
                    const TensorRef &grad) {
  return checkArguments(compiled, inputs, parameters, "grad.O", grad);
}

Operand bindTensor(const TensorRef &tensor, bool written) {
  const bool hasColumns = tensor.shape.size() == 4;
  return {.data = static_cast<char *>(const_cast<void *>(tensor.data)),
          .written = written,
          .batchStride = tensor.strides[0],
          .headStride = tensor.strides[1],
          .rowStride = tensor.strides[2],
          .columnStride = hasColumns ? tensor.strides[3] : 1,
          .rows = tensor.shape[2],
          .width = hasColumns ? tensor.shape[3] : 1,
          .dtype = tensor.dtype,
          .onDevice = tensor.device != TensorRef::kHost};
}

Operand bindHeadTensor(const HeadTensor &info, const HeadMemory &tensor, bool written) {
  const int64_t width = info.shape.empty() ? 1 : info.shape.back();
  return {.data = static_cast<char *>(const_cast<void *>(tensor.data)),
          .written = written,
          .batchStride = 0,
          .headStride = info.shared ? 0 : info.elements(),
          .rowStride = width,
          .columnStride = 1,
          .rows = info.elements() / width,
          .width = width,
          .dtype = tensor.dtype,
          .onDevice = tensor.device != TensorRef::kHost};
}

} // namespace yaglom::runtime
