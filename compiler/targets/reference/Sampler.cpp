// Draws and Kullback-Leibler estimates from the formulas of samplers.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Sampler.h"

#include "compiler/targets/reference/SamplerFunctions.h"

namespace yaglom::reference {

Sampler::Sampler(const std::string &kindName, const SamplerOptions &options, int64_t width, std::string self)
    : kind(findSamplerKind(kindName)), self(std::move(self)) {
  if (!kind)
    throw Error("internal error: no sampler kind '" + kindName + "'");
  formula = samplerFormula(*kind, options, width).value();
  for (const ast::Decl &decl : formula.decls)
    if (const auto *dim = std::get_if<ast::DimDecl>(&decl))
      dims[dim->id.name] = dim->value;
}

template <typename S>
Value<S> Sampler::apply(const char *map, const Value<S> &rows, const Lookup<S> &parameters) const {
  Environment<S> environment;
  environment.file = &formula;
  environment.dims = dims;
  environment.tensor = parameters;
  environment.self = self;
  return Evaluator<S>(environment).applyToAllRows(*formula.find<ast::MapDecl>(map), {rows}, 1);
}

template <typename S>
Value<S> Sampler::sample(const Value<S> &noise, const Lookup<S> &parameters) const {
  return apply("sample", noise, parameters);
}

/// The weight of each sample in a mean over p: equal ones; for a mixture the weight of its component, shared among the
/// component's samples, so that the mean depends on alpha although the allocation does not.
template <typename S>
std::vector<S> Sampler::sampleWeights(int64_t samples, const Lookup<S> &parameters) const {
  if (!kind->allocated)
    return std::vector<S>(static_cast<std::size_t>(samples), S(1.0 / static_cast<double>(samples)));
  const Value<S> alpha = parameters(self + ".alpha");
  const std::vector<int64_t> components = allocate(alpha, samples);
  std::vector<double> counts(alpha.data.size());
  for (int64_t q : components)
    ++counts[static_cast<std::size_t>(q)];
  const Unary &exponential = *findUnary("exp");
  S total{};
  for (const S &a : alpha.data)
    total += exponential(a);
  std::vector<S> weights;
  weights.reserve(components.size());
  for (int64_t q : components)
    weights.push_back(exponential(alpha.data[static_cast<std::size_t>(q)]) / total /
                      S(counts[static_cast<std::size_t>(q)]));
  return weights;
}

template <typename S>
S Sampler::divergence(const Sampler &q, const Value<S> &noise, const Lookup<S> &parameters) const {
  Value<S> rows = sample(noise, parameters);
  const std::vector<S> weights = sampleWeights(noise.rows, parameters);
  S sum{};
  for (int sign = 0; sign < (kind->symmetric ? 2 : 1); ++sign) {
    if (sign == 1)
      rows = pointwise(rows, [](const S &x) { return -x; });
    const bool fromNoise = formula.find<ast::MapDecl>("sample_log_density") != nullptr;
    const Value<S> p =
        fromNoise ? apply("sample_log_density", noise, parameters) : apply("log_density", rows, parameters);
    const Value<S> other = q.apply("log_density", rows, parameters);
    for (int64_t i = 0; i < noise.rows; ++i)
      sum += weights[static_cast<std::size_t>(i)] * (*p.row(i) - *other.row(i));
  }
  return kind->symmetric ? sum * S(0.5) : sum;
}

template Value<Wide> Sampler::sample(const Value<Wide> &, const Lookup<Wide> &) const;
template Value<WideDual> Sampler::sample(const Value<WideDual> &, const Lookup<WideDual> &) const;
template Wide Sampler::divergence(const Sampler &, const Value<Wide> &, const Lookup<Wide> &) const;
template WideDual Sampler::divergence(const Sampler &, const Value<WideDual> &, const Lookup<WideDual> &) const;

} // namespace yaglom::reference
