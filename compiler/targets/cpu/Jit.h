// Loads an object file into this process and finds its functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <memory>
#include <string>

namespace llvm {
class MemoryBuffer;
}

namespace yaglom::compiler::cpu {

/// Machine code that is loaded; it stays as long as this lives.
class LoadedCode {
public:
  static Result<std::shared_ptr<LoadedCode>> load(std::unique_ptr<llvm::MemoryBuffer> object);
  ~LoadedCode();

  /// The address of a function of the object.
  Result<void *> find(const std::string &name) const;

private:
  struct Impl;
  explicit LoadedCode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace yaglom::compiler::cpu
