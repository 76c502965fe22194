// Compiles MLIR text to machine code in this process, for tests of what the CPU lowering emits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
class Operation;
} // namespace mlir

namespace yaglom::test {

/// Functions compiled from MLIR text; memref arguments are bare pointers.
class JitModule {
public:
  /// Parses `text`, applies `transform`, lowers to LLVM and compiles at O2 for this machine. Throws std::runtime_error with
  /// the diagnostics on failure.
  JitModule(const std::string &text, const std::function<void(mlir::Operation *)> &transform);
  ~JitModule();
  JitModule(JitModule &&) noexcept;

  /// The address of a function of the module.
  void *lookup(const std::string &name) const;
  /// The symbols that the compiled object asks others for; known after the first lookup.
  const std::vector<std::string> &undefinedSymbols() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace yaglom::test
