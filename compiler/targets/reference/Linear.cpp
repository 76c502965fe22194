// linear(q, k, v) and softmax_attention(q, k, v): a double loop over queries and keys, nothing clever.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Linear.h"

#include "yaglom/result.h"

#include <algorithm>
#include <limits>
#include <string>

namespace yaglom::reference {
namespace {

/// The keys that take part, in order. The mask is a selection: of a masked key nothing is read, not even a NaN.
template <typename S>
struct Keys {
  std::vector<int64_t> tokens; ///< which token each key is
  std::vector<S> features;     ///< [keys, F]
  std::vector<S> columns;      ///< [width of v, keys]: each output is one dot product with a column
  std::vector<S> decays;       ///< g of each key, if there is a decay
  int64_t featureWidth = 0;

  int64_t count() const { return static_cast<int64_t>(tokens.size()); }
  /// Keys 0 .. visible-1 are what query `i` may see.
  int64_t visible(int64_t i, bool causal) const {
    return causal ? std::upper_bound(tokens.begin(), tokens.end(), i) - tokens.begin() : count();
  }
  const S *feature(int64_t key) const { return features.data() + key * featureWidth; }
  const S *column(int64_t c) const { return columns.data() + c * count(); }
};

/// Forgetting everything is final: no gradient comes back from g = 0. A negative g means nothing.
template <typename S>
S checkedDecay(const S &g) {
  if (valueOf(g).isZero())
    return S(0.0);
  return valueOf(g).isNegative() ? S(std::numeric_limits<double>::quiet_NaN()) : g;
}

template <typename S>
Keys<S> selectKeys(const Value<S> &k, const Value<S> &v, const LinearOptions<S> &options, int64_t keyRows) {
  Keys<S> keys;
  keys.featureWidth = k.width();
  for (int64_t j = 0; j < keyRows; ++j) {
    if (options.mask && valueOf(*options.mask->row(j)).isZero())
      continue;
    keys.tokens.push_back(j);
    keys.features.insert(keys.features.end(), k.row(j), k.row(j) + k.width());
    if (options.decay)
      keys.decays.push_back(checkedDecay(*options.decay->row(j)));
  }
  for (int64_t c = 0; c < v.width(); ++c)
    for (int64_t j : keys.tokens)
      keys.columns.push_back(v.row(j)[c]);
  return keys;
}

/// The weights a_ij of one query `q` for its visible keys, with decay.
template <typename S>
void fillWeights(const S *q, const Keys<S> &keys, std::vector<S> &weights) {
  S passed(1.0); // prod_{t = j+1 .. i} g_t
  for (std::size_t j = weights.size(); j-- > 0;) {
    weights[j] = dot(q, keys.feature(static_cast<int64_t>(j)), keys.featureWidth);
    if (keys.decays.empty())
      continue;
    weights[j] *= passed;
    passed *= keys.decays[j];
  }
  // A negative or NaN g_t spoils every row from t on, also where it weighs no key.
  if (valueOf(passed).isNan())
    std::fill(weights.begin(), weights.end(), passed);
}

template <typename S>
S sumOf(const std::vector<S> &weights) {
  S sum{};
  for (const S &weight : weights)
    sum += weight;
  return sum;
}

/// What the sums of a row are divided by; nothing means that the row is 0.
template <typename S>
std::optional<S> divisorOf(const S &sum, const LinearOptions<S> &options) {
  const Wide value = valueOf(sum), threshold = valueOf(options.threshold);
  switch (options.normalize) {
  case Normalize::None:
    return S(1.0);
  case Normalize::Bare:
    return value.isZero() ? std::nullopt : std::optional(sum);
  case Normalize::Eps:
    return sum + options.threshold;
  case Normalize::Clamp:
    return value <= threshold ? options.threshold : sum;
  case Normalize::Signed:
    if (abs(value) <= threshold)
      return value.isNegative() ? -options.threshold : options.threshold;
    return sum;
  }
  return std::nullopt;
}

template <typename S>
void checkLengths(const LinearOptions<S> &options, int64_t queryRows, int64_t keyRows) {
  if (options.causal && queryRows != keyRows)
    throw Error("'causal' needs equal lengths: found " + std::to_string(queryRows) + " queries and " +
                std::to_string(keyRows) + " keys");
}

} // namespace

template <typename S>
Value<S> linear(const Value<S> &q, const Value<S> &k, const Value<S> &v, const LinearOptions<S> &options,
                int64_t queryRows, int64_t keyRows) {
  checkLengths(options, queryRows, keyRows);
  Value<S> output(v.shape, queryRows);
  const Keys<S> keys = selectKeys(k, v, options, keyRows);
  for (int64_t i = 0; i < queryRows; ++i) {
    const int64_t visible = keys.visible(i, options.causal);
    std::vector<S> weights(static_cast<std::size_t>(visible));
    fillWeights(q.row(i), keys, weights);
    const std::optional<S> divisor = divisorOf(sumOf(weights), options);
    for (int64_t c = 0; c < v.width(); ++c) {
      const S sum = dot(weights.data(), keys.column(c), visible);
      output.row(i)[c] = options.normalize == Normalize::None ? sum : divisor ? sum / *divisor : S(0.0);
    }
  }
  return output;
}

template <typename S>
Value<S> softmaxAttention(const Value<S> &q, const Value<S> &k, const Value<S> &v, const LinearOptions<S> &options,
                          int64_t queryRows, int64_t keyRows) {
  checkLengths(options, queryRows, keyRows);
  Value<S> output(v.shape, queryRows);
  const S scale = options.scale ? *options.scale->row(0) : S(1 / std::sqrt(static_cast<double>(q.width())));
  const Keys<S> keys = selectKeys(k, v, options, keyRows);
  for (int64_t i = 0; i < queryRows; ++i) {
    const int64_t visible = keys.visible(i, options.causal);
    std::vector<S> weights(static_cast<std::size_t>(visible));
    fillWeights(q.row(i), keys, weights);
    Wide largest = -std::numeric_limits<double>::infinity();
    for (S &score : weights) {
      score = score * scale;
      largest = std::max(largest, valueOf(score));
    }
    // The largest score is a constant: it cancels in value and in gradient.
    for (S &score : weights)
      score = (*findUnary("exp"))(score - S(largest));
    const S total = sumOf(weights);
    for (int64_t c = 0; c < v.width() && visible > 0; ++c)
      output.row(i)[c] = dot(weights.data(), keys.column(c), visible) / total;
  }
  return output;
}

template Value<Wide> linear(const Value<Wide> &, const Value<Wide> &, const Value<Wide> &, const LinearOptions<Wide> &,
                            int64_t, int64_t);
template Value<WideDual> linear(const Value<WideDual> &, const Value<WideDual> &, const Value<WideDual> &,
                                const LinearOptions<WideDual> &, int64_t, int64_t);
template Value<Wide> softmaxAttention(const Value<Wide> &, const Value<Wide> &, const Value<Wide> &,
                                      const LinearOptions<Wide> &, int64_t, int64_t);
template Value<WideDual> softmaxAttention(const Value<WideDual> &, const Value<WideDual> &, const Value<WideDual> &,
                                          const LinearOptions<WideDual> &, int64_t, int64_t);

} // namespace yaglom::reference
