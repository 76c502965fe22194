// The GPUs of this machine, and the context in which work for one of them is done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Driver.h"

#include <string>
#include <vector>

namespace yaglom::cuda {

/// What one GPU is and has. Sizes in bytes; registers of 32 bits.
struct Device {
  int ordinal = 0; ///< among those that CUDA_VISIBLE_DEVICES shows
  std::string name;
  int computeCapability = 0; ///< 10 * major + minor: 90 is 9.0, 120 is 12.0
  int multiprocessors = 0;
  int warpSize = 32;
  int threadsPerBlock = 0;
  int threadsPerMultiprocessor = 0;
  int registersPerBlock = 0;
  int registersPerMultiprocessor = 0;
  int sharedBytesPerBlock = 0;      ///< what a kernel has without asking
  int sharedBytesPerBlockOptIn = 0; ///< what it can ask for
  int sharedBytesPerMultiprocessor = 0;
  int l2Bytes = 0;
  size_t memoryBytes = 0;

  /// "sm_90": the name of the architecture, for -arch and .target.
  std::string architecture() const;
};

/// How many GPUs the driver sees; none is no error.
Result<int> deviceCount(const DriverPointer &driver);

/// Asks for the properties of GPU `ordinal`, without making a context. Errors: there is no such GPU.
Result<Device> device(const DriverPointer &driver, int ordinal);

/// All GPUs that the driver sees, by ordinal.
Result<std::vector<Device>> devices(const DriverPointer &driver);

/// The primary context of a GPU, the one that PyTorch and the CUDA runtime use as well: pointers and streams are shared
/// with them. A handle: copies name the same context. It is retained by the first handle and released with the last
/// one, or with the last object made in it; whoever launches now and then keeps one.
class Context {
public:
  /// Retains the primary context of GPU `ordinal`, or gives a handle to it if this process has one from `driver`.
  static Result<Context> retain(const DriverPointer &driver, int ordinal);

  const Device &device() const;
  const DriverPointer &driver() const;
  abi::Context handle() const;

private:
  friend class ContextScope;
  struct State;
  explicit Context(std::shared_ptr<const State> state) : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

/// While it lives, a context is the calling thread's current one; afterwards the former one is again. When it was
/// current already nothing is set. Leave a scope on the thread that entered it, the last entered first.
class ContextScope {
public:
  /// Errors: the process was forked since the driver was loaded; the driver's.
  static Result<ContextScope> enter(const Context &context);

  ContextScope(ContextScope &&other) noexcept;
  ContextScope &operator=(ContextScope &&) = delete;
  ~ContextScope();

private:
  ContextScope(const Driver *driver, abi::Context former) : driver(driver), former(former) {}
  const Driver *driver; ///< null: nothing to restore
  abi::Context former;
};

} // namespace yaglom::cuda
