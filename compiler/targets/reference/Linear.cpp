// linear(q, k, v) and softmax_attention(q, k, v): a double loop over queries and keys, nothing clever.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Linear.h"

#include "yaglom/result.h"

#include <algorithm>
#include <limits>
#include <string>

namespace yaglom::reference {
namespace {

/// Keys 0 .. end-1 are what query `i` may see.
template <typename S>
int64_t visibleKeys(const LinearOptions<S> &options, int64_t i, int64_t keyRows) {
  return options.causal ? std::min(i + 1, keyRows) : keyRows;
}

/// Whether key j takes part. It is a selection: what a masked key holds, even NaN, is never read.
template <typename S>
bool takesPart(const LinearOptions<S> &options, int64_t j) {
  return !options.mask || !valueOf(*options.mask->row(j)).isZero();
}

/// The decay of key row t. Forgetting everything is final: no gradient comes back from g = 0. A negative g means nothing.
template <typename S>
S decayOf(const LinearOptions<S> &options, int64_t t) {
  if (!takesPart(options, t))
    return S(1.0);
  const S g = *options.decay->row(t);
  if (valueOf(g).isZero())
    return S(0.0);
  return valueOf(g).isNegative() ? S(std::numeric_limits<double>::quiet_NaN()) : g;
}

/// Weights a_ij of query i for all visible keys, with decay; those of masked keys are not set.
template <typename S>
void fillWeights(const Value<S> &q, const Value<S> &k, const LinearOptions<S> &options, int64_t i,
                 std::vector<S> &weights) {
  S passed(1.0); // prod_{t = j+1 .. i} g_t
  for (int64_t j = static_cast<int64_t>(weights.size()); j-- > 0;) {
    if (takesPart(options, j))
      weights[j] = dot(q.row(i), k.row(j), k.width()) * passed;
    if (options.decay)
      passed *= decayOf(options, j);
  }
  // A negative or NaN g_t spoils every row from t on, also where it weighs no key.
  if (options.decay && !weights.empty() && valueOf(passed).isNan())
    std::fill(weights.begin(), weights.end(), passed);
}

/// What the sums of a row are divided by; `divisor` unset means that the row is 0.
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
  const int64_t width = v.width();
  for (int64_t i = 0; i < queryRows; ++i) {
    std::vector<S> weights(static_cast<std::size_t>(visibleKeys(options, i, keyRows)));
    fillWeights(q, k, options, i, weights);
    S *out = output.row(i);
    S sum{};
    for (std::size_t j = 0; j < weights.size(); ++j) {
      if (!takesPart(options, static_cast<int64_t>(j)))
        continue;
      sum += weights[j];
      addScaled(out, weights[j], v.row(static_cast<int64_t>(j)), width);
    }
    const std::optional<S> divisor = divisorOf(sum, options);
    for (int64_t c = 0; c < width && options.normalize != Normalize::None; ++c)
      out[c] = divisor ? out[c] / *divisor : S(0.0);
  }
  return output;
}

template <typename S>
Value<S> softmaxAttention(const Value<S> &q, const Value<S> &k, const Value<S> &v, const LinearOptions<S> &options,
                          int64_t queryRows, int64_t keyRows) {
  checkLengths(options, queryRows, keyRows);
  Value<S> output(v.shape, queryRows);
  const S scale = options.scale ? *options.scale->row(0) : S(1 / std::sqrt(static_cast<double>(q.width())));
  for (int64_t i = 0; i < queryRows; ++i) {
    std::vector<std::pair<int64_t, S>> scores;
    Wide largest = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < visibleKeys(options, i, keyRows); ++j)
      if (takesPart(options, j)) {
        scores.emplace_back(j, scale * dot(q.row(i), k.row(j), k.width()));
        largest = std::max(largest, valueOf(scores.back().second));
      }
    S *out = output.row(i);
    S sum{};
    for (const auto &[j, score] : scores) {
      // The largest score is a constant: it cancels in value and in gradient.
      const S weight = (*findUnary("exp"))(score - S(largest));
      sum += weight;
      addScaled(out, weight, v.row(j), v.width());
    }
    for (int64_t c = 0; c < v.width() && !scores.empty(); ++c)
      out[c] = out[c] / sum;
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
