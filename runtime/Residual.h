// What a forward launch keeps for backward: the states of every item, and which launch they belong to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Arguments.h"
#include "runtime/Compiled.h"
#include "yaglom/kernel.h"

#include <cstddef>
#include <memory>

namespace yaglom {

/// The states of one item lie one after the other, `states` of them, `stateElements` of the program each.
struct Residual::Impl {
  explicit Impl(int64_t interval) : interval(interval) {}

  /// Makes room for a launch on `stream`, of a program with this chunk; 0: of the one for these sizes.
  void prepare(const runtime::Compiled &compiled, const runtime::Sizes &sizes, void *stream, int64_t ofProgram = 0);
  /// Throws the Error that says why `residual` is not what a forward launch with these arguments left.
  void check(const runtime::Compiled &compiled, const runtime::Sizes &sizes) const;

  const int64_t interval; ///< chunks between two states
  /// Of the launch, none before it has ended well. Its address is not given to another while this one looks at it.
  std::weak_ptr<const runtime::Compiled> kernel;
  runtime::Sizes sizes; ///< of the launch
  compiler::Keeps keeps = compiler::Keeps::Nothing;
  int64_t chunk = 0;       ///< of the program that fills it
  int64_t states = 0;      ///< of an item
  int64_t segmentRows = 0; ///< rows between two states
  int64_t itemBytes = 0;
  std::size_t bytes = 0;                      ///< of all items
  runtime::Block memory;                      ///< where the kernel runs; may be larger
  std::shared_ptr<runtime::GpuDevice> device; ///< whose memory it is; null: the host's
};

} // namespace yaglom
