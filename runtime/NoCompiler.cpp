// Stands in for compiler::build and emitText in builds without the compiler/ folder: the reference target alone works.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"

namespace yaglom::compiler {

Result<std::shared_ptr<const Program>> build(const Instance &, const CompileOptions &options) {
  return Error("this build has no compiler for '" + options.target.name() + "'");
}

Result<std::string> emitText(const Instance &, Stage, const CompileOptions &options) {
  return Error("this build has no compiler for '" + options.target.name() + "'");
}

} // namespace yaglom::compiler
