// Two GPUs that are none: the fake driver that runs kernels by the emulator, and kernels and tensors for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/numeric/CpuCase.h"
#include "tests/unit/Catch.h"
#include "tests/unit/cuda/FakeCuda.h"
#include "yaglom/yaglom.h"

#include <string>
#include <vector>

namespace yaglom::tests {

/// The state of the driver of this process: a GPU of sm_90 and one of sm_80.
fakecuda::State &gpus();
/// Forgets the calls so far.
void forgetCalls();
/// Calls since then of what a launch must not do: allocating, loading, waiting, asking.
std::vector<std::string> forbiddenCalls();
/// Captures what is enqueued on `stream`, and ends that.
void beginCapture(void *stream);
void endCapture(void *stream);
/// Does what was captured.
void replay(void *stream);
/// A stream: the fake driver asks for no more than a number.
inline void *stream(uintptr_t number) { return reinterpret_cast<void *>(0x100 + number); }

Target cuda(const std::string &name = "cuda");
std::string specPath(const std::string &name);

/// An attention with its tensors on the host, in the kernel's type, and on its GPU.
struct Subject {
  Subject(const Kernel &kernel, const Data &data, const Tensor &grad);
  Subject(const Kernel &kernel, Sizes sizes);
  /// The attention of a shipped spec, with d = e = n = 8 and random tensors.
  Subject(const std::string &spec, const std::string &attention, const Target &target, Sizes sizes,
          DType dtype = DType::f32);

  std::vector<TensorRef> inputs() const; ///< on the device
  TensorRef output() const { return tensors["O"]; }
  TensorRef grad() const { return tensors["grad.O"]; }
  /// The tensor O, as numbers.
  std::vector<double> result(void *stream = nullptr) const;

  Kernel kernel;
  Data data;
  Parameters onHost;        ///< parameters and draws
  DeviceParameters tensors; ///< inputs, O and grad.O
  DeviceParameters parameters;
};

/// The text of the Error that `call` throws, or "".
template <typename Call>
std::string errorOf(Call call) {
  try {
    call();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace yaglom::tests
