// Tensors at the boundary: references to the caller's memory, and small owned tensors for parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom {

/// f16 is IEEE binary16, bf16 the upper half of a float32: GPUs compute with them.
enum class DType { f32, f64, f16, bf16 };

/// "f32", "f64", "f16" or "bf16".
YAGLOM_API const char *toText(DType type);
/// The type of parameters, draws, states and sums in a kernel whose inputs have this type: f32 where it is f16 or bf16.
YAGLOM_API DType parameterType(DType type);
/// Bytes of one element.
YAGLOM_API std::size_t sizeOf(DType type);

using Shape = std::vector<int64_t>;

/// Points to memory that the caller owns and keeps alive during the call. Strides are in elements; row-major when not given.
/// Memory is the host's unless onCuda() says otherwise.
///
///     TensorRef q{data, {batch, heads, length, 64}};                                      // [B, H, N, d]
///     TensorRef k{data, {batch, heads, length, 64}, {heads * length * 64, 64, heads * 64, 1}};  // stored as [B, N, H, d]
///     TensorRef v = TensorRef(address, DType::bf16, {batch, heads, length, 64}).onCuda(0); // on the first GPU
struct YAGLOM_API TensorRef {
  TensorRef() = default;
  TensorRef(float *data, Shape shape, Shape strides = {});
  TensorRef(const float *data, Shape shape, Shape strides = {});
  TensorRef(double *data, Shape shape, Shape strides = {});
  TensorRef(const double *data, Shape shape, Shape strides = {});
  /// Memory of any element type; writable unless it is const.
  TensorRef(void *data, DType dtype, Shape shape, Shape strides = {});
  TensorRef(const void *data, DType dtype, Shape shape, Shape strides = {});
  /// The same, where `data` is an address on the GPU with this ordinal (CUdeviceptr, cudaMalloc's or PyTorch's data_ptr()).
  TensorRef onCuda(int ordinal = 0) const;

  static constexpr int kHost = -1;

  const void *data = nullptr;
  DType dtype = DType::f32;
  bool writable = false;
  Shape shape;
  Shape strides;      ///< as many entries as shape
  int device = kHost; ///< whose memory it is: the host's, or the GPU's with this CUDA ordinal
};

/// A dense row-major tensor that owns its memory, 64-byte aligned, zero-initialised.
class YAGLOM_API Tensor {
public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape);
  Tensor(const Tensor &);
  Tensor(Tensor &&) noexcept;
  Tensor &operator=(Tensor) noexcept;
  ~Tensor();

  DType dtype() const { return type; }
  const Shape &shape() const { return dims; }
  int64_t size() const; ///< number of elements
  void *data() { return memory; }
  const void *data() const { return memory; }
  double at(int64_t index) const;        ///< element `index` of the flattened tensor
  void set(int64_t index, double value); ///< rounds to the element type
  operator TensorRef();                  ///< a writable reference; valid while this tensor lives
  TensorRef ref() const;                 ///< a read-only reference

private:
  DType type = DType::f32;
  Shape dims;
  void *memory = nullptr;
};

/// Named tensors in a fixed order: the parameters and draws of an attention ("flexformer_n.W1", shape [H, n, d]).
class YAGLOM_API Parameters {
public:
  struct Entry {
    std::string name;
    Tensor tensor;
  };

  /// The tensor of that name, or null.
  Tensor *find(std::string_view name);
  const Tensor *find(std::string_view name) const;
  /// The tensor of that name. Throws Error when there is none.
  Tensor &operator[](std::string_view name);
  const Tensor &operator[](std::string_view name) const;
  /// Adds or replaces.
  void set(std::string name, Tensor tensor);

  auto begin() const { return entries.begin(); }
  auto end() const { return entries.end(); }
  std::size_t size() const { return entries.size(); }

private:
  std::vector<Entry> entries;
};

} // namespace yaglom
