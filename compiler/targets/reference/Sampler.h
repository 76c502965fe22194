// A sampler of a spec as the reference runs it: its formula, applied to rows of noise or of frequencies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Evaluate.h"
#include "frontend/Samplers.h"

#include <functional>
#include <string>

namespace yaglom::reference {

/// A sampler with its row width fixed.
class Sampler {
public:
  /// `self` is the sampler's name, the prefix of its parameters.
  Sampler(const std::string &kind, const SamplerOptions &options, int64_t width, std::string self);

  template <typename S>
  using Lookup = std::function<Value<S>(const std::string &)>;

  /// Rows of frequencies [D] from rows of noise; `parameters` finds the sampler's tensors.
  template <typename S>
  Value<S> sample(const Value<S> &noise, const Lookup<S> &parameters) const;

  /// kl(p, q) of this sampler p: the weighted sum over the samples of log p(w) - log q(w).
  template <typename S>
  S divergence(const Sampler &q, const Value<S> &noise, const Lookup<S> &parameters) const;

private:
  template <typename S>
  Value<S> apply(const char *map, const Value<S> &rows, const Lookup<S> &parameters) const;
  template <typename S>
  std::vector<S> sampleWeights(int64_t samples, const Lookup<S> &parameters) const;

  const SamplerKind *kind;
  ast::File formula;
  DimValues dims;
  std::string self;
};

} // namespace yaglom::reference
