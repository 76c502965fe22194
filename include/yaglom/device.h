// Parameters and gradients that stay in the memory of a GPU from launch to launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tensor.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom {

/// Named dense tensors where a kernel's launches find them without a copy: in the memory of its GPU, or of the host for a
/// kernel of the host. Made by Kernel::upload(), or by a backward launch that leaves its gradients there. Copies to and from
/// the host are on the stream that is given (CUstream; null is the legacy default stream).
///
///     DeviceParameters parameters = kernel.upload(kernel.initialParameters(heads));
///     kernel.forward({q, k, v}, parameters, o, {.stream = stream}); // returns once it is enqueued
///     parameters.update(changed, stream);
///     Parameters trained = parameters.download(stream);
class YAGLOM_API DeviceParameters {
public:
  /// None yet.
  DeviceParameters();
  DeviceParameters(DeviceParameters &&) noexcept;
  DeviceParameters &operator=(DeviceParameters &&) noexcept;
  /// Frees the memory that it owns; launches that use it must be done by then.
  ~DeviceParameters();

  std::vector<std::string> names() const; ///< in a fixed order
  bool contains(std::string_view name) const;
  /// A writable reference; valid while this object has the tensor. Throws Error when there is none of that name.
  TensorRef operator[](std::string_view name) const;

  /// Takes the caller's memory for the tensor of that name, in place of any there was: a parameter of PyTorch, say. The caller
  /// keeps it alive. Throws Error when it is not row-major, not writable, or not where the other tensors are.
  void set(const std::string &name, const TensorRef &memory);
  /// Overwrites tensors with the values of the same names. Throws Error when one is missing here or has another shape or type,
  /// before any is written, and while the stream is being captured.
  void update(const Parameters &values, void *stream = nullptr);
  /// Copies of all tensors, once the stream has come so far. Throws Error while the stream is being captured.
  Parameters download(void *stream = nullptr) const;

  struct Impl;
  Impl &data() const { return *impl; } ///< for the runtime

private:
  std::unique_ptr<Impl> impl;
};

/// Gradients by name, "grad.Q", "grad.flexformer_n.W1", that stay where DeviceParameters are.
using DeviceGradients = DeviceParameters;

} // namespace yaglom
