// The module as text, the pipeline as a resource beside it.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Reproducer.h"

#include "compiler/Dump.h"
#include "mlir/IR/AsmState.h"
#include "support/Debugging.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace yaglom::compiler {

std::string reproducerText(mlir::ModuleOp before, const mlir::OpPassManager &passes) {
  std::string pipeline, text;
  llvm::raw_string_ostream pipelineStream(pipeline), stream(text);
  passes.printAsTextualPipeline(pipelineStream);

  mlir::AsmState state(before, mlir::OpPrintingFlags().enableDebugInfo());
  state.attachResourcePrinter("mlir_reproducer", [&](mlir::Operation *, mlir::AsmResourceBuilder &builder) {
    builder.buildString("pipeline", pipeline);
    builder.buildBool("disable_threading", true);
    builder.buildBool("verify_each", true);
  });
  before->print(stream, state);
  return text;
}

Result<std::string> writeReproducer(llvm::StringRef name, llvm::StringRef extension, llvm::StringRef text) {
  llvm::SmallString<128> model, path;
  if (auto folder = dumpFolder())
    model = *folder;
  else
    llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, model);
  llvm::sys::path::append(model, fmt::format("yaglom-{}-%%%%%%%%.{}", fileName(name), extension.str()));
  int descriptor = -1;
  if (const std::error_code error = llvm::sys::fs::createUniqueFile(model, descriptor, path))
    return Error(fmt::format("cannot write '{}': {}", model.str().str(), error.message()));
  llvm::raw_fd_ostream file(descriptor, /*shouldClose=*/true);
  file << text;
  file.close();
  const std::error_code error = file.error();
  file.clear_error(); // the stream would end the process
  if (error)
    return Error(fmt::format("cannot write '{}': {}", path.str().str(), error.message()));
  return path.str().str();
}

} // namespace yaglom::compiler
