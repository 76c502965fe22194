// The operators that combine tokens, by their definition: every pair of a query and a key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Value.h"

#include <optional>

namespace yaglom::reference {

enum class Normalize { None, Bare, Eps, Clamp, Signed };

/// The options of language.md section 4, evaluated.
template <typename S>
struct LinearOptions {
  bool causal = false;
  std::optional<Value<S>> decay; ///< g, one a head or one a key; `log_decay` is given as exp(a)
  std::optional<Value<S>> mask;  ///< m, one a key
  std::optional<Value<S>> scale; ///< softmax_attention
  Normalize normalize = Normalize::None;
  S threshold{}; ///< the constant of eps, clamp, signed
};

/// O_i = sum_j a_ij v_j, normalised. q [F] on `queryRows` rows, k [F] and v on `keyRows` rows; constants stand for each row.
template <typename S>
Value<S> linear(const Value<S> &q, const Value<S> &k, const Value<S> &v, const LinearOptions<S> &options,
                int64_t queryRows, int64_t keyRows);

/// O_i = sum_j softmax_j(scale q_i . k_j) v_j.
template <typename S>
Value<S> softmaxAttention(const Value<S> &q, const Value<S> &k, const Value<S> &v, const LinearOptions<S> &options,
                          int64_t queryRows, int64_t keyRows);

} // namespace yaglom::reference
