// Kernels for tests of the runtime: real specs whose machine code is a C++ function written here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Compiled.h"
#include "yaglom/yaglom.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace yaglom::fake {

/// One operand as a compiled function sees it.
template <typename T>
struct Rows {
  T *data;
  int64_t stride;
  T *operator[](int64_t row) const { return data + row * stride; }
};

template <typename T>
Rows<T> rows(const int64_t *arguments, int index) {
  const int64_t *words = arguments + compiler::Entry::kHeaderWords + 2 * index;
  return {reinterpret_cast<T *>(words[0]), words[1]};
}

constexpr int64_t kWidth = 4;          ///< d and e of every fake kernel
constexpr int64_t kScratchBytes = 256; ///< the kernels below scribble over all of it

/// O_i = gain * sum over j (j <= i when causal) of (q_i . k_j) v_j. Operands: Q, K, V, O, and a per-head gain.
template <typename T, bool causal>
void linearAttention(const int64_t *arguments, void *scratch) {
  std::fill_n(static_cast<char *>(scratch), kScratchBytes, char(0x7f));
  const auto q = rows<T>(arguments, 0), k = rows<T>(arguments, 1), v = rows<T>(arguments, 2), o = rows<T>(arguments, 3);
  const T gain = *rows<T>(arguments, 4)[0];
  for (int64_t i = 0; i < arguments[0]; ++i) {
    std::fill_n(o[i], kWidth, T(0));
    for (int64_t j = 0; j < (causal ? i + 1 : arguments[1]); ++j) {
      T weight = 0;
      for (int64_t c = 0; c < kWidth; ++c)
        weight += q[i][c] * k[j][c];
      for (int64_t c = 0; c < kWidth; ++c)
        o[i][c] += gain * weight * v[j][c];
    }
  }
}

/// Operands: noise, what is drawn. Twice the noise.
template <typename T>
void doubledNoise(const int64_t *arguments, void *) {
  const auto noise = rows<T>(arguments, 0), drawn = rows<T>(arguments, 1);
  for (int64_t i = 0; i < arguments[0]; ++i)
    for (int64_t c = 0; c < kWidth; ++c)
      drawn[i][c] = 2 * noise[i][c];
}

constexpr const char *kCausal =
    "attention a(Q; K, V) { param gain: [] = 1 let o = linear(Q, K, V) with causal return gain * o }";
constexpr const char *kBoth = "attention a(Q; K, V) { param gain: [] = 1 return gain * linear(Q, K, V) }";

/// The kernel of attention `a` of `text` with `program` for its code.
inline Kernel makeKernel(const char *text, compiler::Program program, DType dtype = DType::f32) {
  const Spec spec = Spec::parse(text).value();
  Instance instance = instantiate(spec.file(), "a", {{"d", kWidth}, {"e", kWidth}}).value();
  CompileOptions options{.headDim = kWidth, .dtype = dtype};
  auto shared = std::make_shared<const compiler::Program>(std::move(program));
  auto compiled = runtime::makeCompiled(spec, std::move(instance), options, shared).value();
  return Kernel(std::make_shared<const Kernel::Impl>(Kernel::Impl{compiled, 0}));
}

template <typename T>
Kernel linear(bool causal) {
  compiler::Program program;
  program.forward.function = causal ? linearAttention<T, true> : linearAttention<T, false>;
  program.forward.operands = {"Q", "K", "V", "O", "a.gain"};
  program.scratchBytes = kScratchBytes;
  program.multiplyAddsPerQuery = 3;
  program.multiplyAddsPerKey = 5;
  return makeKernel(causal ? kCausal : kBoth, program, sizeof(T) == 4 ? DType::f32 : DType::f64);
}

/// The parameters of linear(): gain 1 + head.
inline Parameters gains(int64_t heads, DType dtype = DType::f32) {
  Tensor gain(dtype, {heads});
  for (int64_t head = 0; head < heads; ++head)
    gain.set(head, 1 + static_cast<double>(head));
  Parameters parameters;
  parameters.set("a.gain", std::move(gain));
  return parameters;
}

/// Small whole numbers that depend on all of the index: sums of products of them are exact.
inline Tensor numbers(Shape shape, int64_t salt, DType dtype = DType::f32) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, static_cast<double>((i * 7 + salt * 5 + i / 11) % 9 - 4));
  return tensor;
}

inline bool sameBits(const Tensor &a, const Tensor &b) {
  bool same = a.shape() == b.shape();
  for (int64_t i = 0; same && i < a.size(); ++i)
    same = a.at(i) == b.at(i);
  return same;
}

/// What the Error of `call` says; empty without one.
inline std::string message(const std::function<void()> &call) {
  try {
    call();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace yaglom::fake
