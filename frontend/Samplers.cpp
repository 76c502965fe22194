// The registry of sampler kinds: one line each.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Samplers.h"
#include "frontend/Check.h"
#include "frontend/Parser.h"

namespace yaglom {

const std::vector<const SamplerKind *> &samplerKinds() {
  static const std::vector<const SamplerKind *> kinds = {
      &gaussianSampler(), &orthogonalSampler(), &mixtureSampler(),
      &implicitSampler(), &realNvpSampler(),    &spectralMixtureSampler(),
  };
  return kinds;
}

const SamplerKind *findSamplerKind(std::string_view name) {
  for (const SamplerKind *kind : samplerKinds())
    if (kind->name == name)
      return kind;
  return nullptr;
}

Result<ast::File> samplerFormula(const SamplerKind &kind, const SamplerOptions &options, int64_t width) {
  Diagnostics diagnostics;
  Parsed parsed =
      parse(kind.formula(options, width), "sampler " + std::string(kind.name), Dialect::Internal, diagnostics);
  check(parsed.file, parsed.broken, Dialect::Internal, diagnostics);
  if (diagnostics.hasErrors())
    return Error(diagnostics.render(parsed.file.sources));
  return std::move(parsed.file);
}

} // namespace yaglom
