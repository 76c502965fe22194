// Checks what a caller hands to a launch, by the names of the arguments, and finds the operands in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Compiled.h"
#include "runtime/HeadTensors.h"
#include "runtime/Launch.h"

#include <span>
#include <vector>

namespace yaglom::runtime {

/// Checks all arguments of a forward launch and returns its sizes. Throws an Error that names the first argument that
/// does not fit, what was expected and what was found.
Sizes checkForward(const Compiled &compiled, std::span<const TensorRef> inputs, const HeadTensors &parameters,
                   const TensorRef &output);

/// Checks all arguments of a backward launch; `grad` is the gradient of the output. Throws like checkForward.
Sizes checkBackward(const Compiled &compiled, std::span<const TensorRef> inputs, const HeadTensors &parameters,
                    const TensorRef &grad);

/// Checks type and shape of one tensor of the heads; there is nothing when the caller has none. Throws Error.
void checkHeadTensor(const HeadTensor &expected, const std::optional<HeadMemory> &tensor, int64_t heads, DType dtype);
void checkHeadTensor(const HeadTensor &expected, const Tensor *tensor, int64_t heads, DType dtype);

/// Checks that memory for the argument `name` is where the kernel's launches find it. Throws Error.
void checkPlace(const Compiled &compiled, const std::string &name, int device, const void *data);
/// Refuses a stream where there are none: on the host. Throws Error.
void checkStream(const Compiled &compiled, const void *stream);

/// An input or output [B, H, N, width] or [B, H, N]; checked before.
Operand bindTensor(const TensorRef &tensor, bool written);

/// A tensor of the heads. The memory of a const tensor is not written: only outputs of draws and losses are.
Operand bindHeadTensor(const HeadTensor &info, const HeadMemory &tensor, bool written);

} // namespace yaglom::runtime
