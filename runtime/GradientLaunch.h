// One launch of a compiled gradient, wherever its operands are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Arguments.h"
#include "runtime/Compiled.h"
#include "runtime/Launch.h"
#include "yaglom/kernel.h"

#include <functional>
#include <string>

namespace yaglom::runtime {

/// "Q" of "grad.Q".
std::string tensorOf(const std::string &gradient);

/// The tensor of the heads of that name, or null.
const HeadTensor *findHeadTensor(const Compiled &compiled, const std::string &name);

/// The gradients of a tensor of the heads for every item, [batch, heads, ...], before they are summed.
Operand bindPerItem(const HeadTensor &info, const HeadMemory &memory, int64_t heads);

/// Gives the operand of a name. A result is what the gradient writes.
using FindOperand = std::function<Operand(const std::string &name, bool isResult)>;

/// What is launched, and on what grid; `residual` for the gradient from kept states.
struct GradientLaunch {
  const Compiled &compiled;
  const compiler::BackwardProgram &program;
  const compiler::GradientEntry &entry;
  const Grid &grid;
  const Residual::Impl *residual = nullptr;

  void run(const FindOperand &find, const Execution &how) const;
};

} // namespace yaglom::runtime
