// What a stage that failed was given, in a file that `yaglom-opt --run-reproducer` replays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <string>

namespace yaglom::compiler {

/// The module, with its locations, and the passes that it was given to, in MLIR's format of reproducers. MLIR's own writer
/// (PassManager::enableCrashReproducerGeneration) installs signal handlers, which are the host program's.
std::string reproducerText(mlir::ModuleOp before, const mlir::OpPassManager &passes);

/// Writes `text` to a new file in YAGLOM_DUMP's folder, or in the folder of temporary files. `name` becomes part of its name.
/// The path of the file, or why there is none.
Result<std::string> writeReproducer(llvm::StringRef name, llvm::StringRef extension, llvm::StringRef text);

} // namespace yaglom::compiler
