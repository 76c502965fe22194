// Programs as text, each operation beside the place in the spec that it comes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

#include <string>

namespace yaglom::compiler {

/// Every place in a file that a location is made of, each once: "performer.phi:12:9"; empty when it is of none.
std::string placeText(mlir::Location location);

/// The module as text; with `locations` the line that an operation begins on ends with `// performer.phi:12:9`.
std::string printModule(mlir::ModuleOp module, bool locations);

/// LLVM IR as text; with `locations` its line table becomes comments, `; performer.phi:12:9`, and the module loses it.
std::string printModule(llvm::Module &module, bool locations);

/// Assembly or PTX with the directives of its line table as comments, which begin with `comment`: `# performer.phi:12:9`.
std::string placesAsComments(llvm::StringRef assembly, llvm::StringRef comment);

} // namespace yaglom::compiler
