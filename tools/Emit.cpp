// yaglom emit: the program after a stage of the pipeline, as text.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Commands.h"

#include <cstdio>

namespace yaglom::tools {

int emit(const EmitOptions &options) {
  if (options.sassInfo)
    return sassInfo(options);
  const Spec spec = loadSpec(options.file);
  const Pass pass = options.residual ? Pass::BackwardFromResidual : options.backward ? Pass::Backward : Pass::Forward;
  const std::string text =
      yaglom::emit(spec, options.attention, options.stage, options.compile, pass, options.locations).value();
  std::fputs(text.c_str(), stdout);
  if (text.empty() || text.back() != '\n')
    std::fputc('\n', stdout);
  return kSuccess;
}

} // namespace yaglom::tools
