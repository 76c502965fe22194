// What DeviceParameters hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/GpuDevice.h"
#include "yaglom/device.h"

namespace yaglom {

struct DeviceParameters::Impl {
  struct Entry {
    std::string name;
    TensorRef ref; ///< row-major, writable
    std::shared_ptr<void> owner = {};
  };
  std::vector<Entry> entries;
  std::shared_ptr<runtime::GpuDevice> device; ///< null: the host

  const Entry *find(std::string_view name) const;
  Entry *find(std::string_view name) { return const_cast<Entry *>(std::as_const(*this).find(name)); }
  void put(Entry entry);
  /// Adds tensors of these names, all in one block of memory. Throws Error.
  struct Wanted {
    std::string name;
    DType dtype;
    Shape shape;
  };
  void allocate(const std::vector<Wanted> &wanted, void *stream, const std::string &what);
  /// Takes `target` for the device, unless tensors are elsewhere: then throws an Error that says whose they are.
  void bind(const std::shared_ptr<runtime::GpuDevice> &target, const std::string &argument);
};

namespace runtime {

/// "host memory", "memory of CUDA device 1".
std::string placeText(int device);
/// Bytes of a dense tensor.
std::size_t bytesOf(DType dtype, const Shape &shape);
bool isRowMajor(const TensorRef &tensor);

} // namespace runtime
} // namespace yaglom
