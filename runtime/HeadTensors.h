// The parameters and draws that a caller gives to a launch, whether they are on the host or on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/device.h"
#include "yaglom/tensor.h"

#include <optional>
#include <string_view>

namespace yaglom::runtime {

/// A dense tensor of the heads.
struct HeadMemory {
  const void *data = nullptr;
  DType dtype = DType::f32;
  const Shape *shape = nullptr; ///< of the tensor that it is the memory of
  int device = TensorRef::kHost;

  HeadMemory() = default;
  HeadMemory(const Tensor &tensor) : data(tensor.data()), dtype(tensor.dtype()), shape(&tensor.shape()) {}
  HeadMemory(const TensorRef &ref) : data(ref.data), dtype(ref.dtype), shape(&ref.shape), device(ref.device) {}
};

/// A view of the caller's tensors.
class HeadTensors {
public:
  HeadTensors(const Parameters &parameters) : host(&parameters) {}
  HeadTensors(const DeviceParameters &parameters) : device(&parameters) {}
  /// Every name, without memory: for sessions that prepare.
  static HeadTensors blank() { return {}; }

  std::optional<HeadMemory> find(std::string_view name) const;
  /// The tensors on the host: the caller's, or copies in `copies`.
  const Parameters &onHost(Parameters &copies, void *stream) const;
  bool areOnHost() const { return host; }

private:
  HeadTensors() = default;
  const Parameters *host = nullptr;
  const DeviceParameters *device = nullptr;
};

} // namespace yaglom::runtime
