// The kinds of samplers: what the checker must know of each, and its formula as phi text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Ast.h"
#include "yaglom/result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom {

/// Options of one sampler by name, complete and checked: integers are whole and positive, `scale` is positive.
using SamplerOptions = std::map<std::string, double, std::less<>>;

/// What `name(option = value)` may hold.
struct SamplerOption {
  std::string_view name;
  bool integer = true;
  std::optional<double> fallback = std::nullopt; ///< without it the option must be given
  double most = 65536;                           ///< of an integer: keeps a formula of finite length
};

/// Whether a sampler draws `(A, B): [rows, w]`, one row of D = 2w entries [a; b] (T10).
enum class Pairs { Never, Allowed, Only };

/// One kind of sampler: a file in frontend/samplers that returns this record, and one line of the registry.
///
/// `formula` returns phi text for rows of `width` entries (both halves for a pair), read in the parser's internal mode:
///
///     dim h = 64                                                # numbers may also be written in place
///     map sample(z: [16]) -> [4] {                              # one row of noise to one row of frequencies
///       param self.W0: [h, 16] ~ gaussian(scale = 16^(-1/2))    # per head; name, shape and initial value
///       ...
///     }
///     map log_density(w: [4]) -> [] = ...                       # with hasDensity; sees the parameters of `sample`
///     map sample_log_density(z: [4]) -> [] = ...                # optional: log p(sample(z)) from the noise itself
///
/// - A name may hold dots and digits after its first letter: `self.0.scale.W0`. `self` stands for the sampler's name, so
///   that parameter of `sampler flow = realnvp(...)` is the tensor `flow.0.scale.W0`.
/// - `param`s stand in `sample`, in the order of the tensors; `log_density` and `sample_log_density` refer to them.
/// - Internal functions beside the language's own: `slice(x, begin, count)` of a vector, constant and from 0;
///   `component(t, alpha)`, the row of t [Q, D] (or the entry of t [Q]) that the current row is allocated to
///   (language.md, Allocation), alpha [Q] without a gradient; `orthogonalize(z)`, the unit vector that Gram-Schmidt
///   makes of this row of noise in its block of D rows (not yet scaled by |z|).
/// - `dim`s, `fn`s and further maps without params may be declared. The prelude is visible.
struct SamplerKind {
  std::string_view name;
  std::vector<SamplerOption> options;
  Pairs pairs = Pairs::Allowed;
  bool hasParameters = false; ///< then it must be declared by `sampler`
  bool hasDensity = false;
  bool allocated = false; ///< a mixture: rows belong to components with weights softmax(self.alpha); kl weighs by them
  bool symmetric = false; ///< the density is even; kl(p, q) takes each sample of p with both signs, half weight each
  /// Entries of one row of noise; null when they are as many as `width`.
  int64_t (*noiseWidth)(const SamplerOptions &options, int64_t width) = nullptr;
  std::string (*formula)(const SamplerOptions &options, int64_t width) = nullptr;

  int64_t noiseOf(const SamplerOptions &given, int64_t width) const {
    return noiseWidth ? noiseWidth(given, width) : width;
  }
};

/// Every kind, in the order of language.md section 5. A new sampler is one more line in Samplers.cpp.
const std::vector<const SamplerKind *> &samplerKinds();

/// The kind of that name, or null.
const SamplerKind *findSamplerKind(std::string_view name);

/// The formula of `kind` for rows of `width` entries, parsed and checked. An Error is a bug of the sampler's file.
Result<ast::File> samplerFormula(const SamplerKind &kind, const SamplerOptions &options, int64_t width);

const SamplerKind &gaussianSampler();
const SamplerKind &orthogonalSampler();
const SamplerKind &mixtureSampler();
const SamplerKind &implicitSampler();
const SamplerKind &realNvpSampler();
const SamplerKind &spectralMixtureSampler();

} // namespace yaglom
