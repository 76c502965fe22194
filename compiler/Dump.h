// YAGLOM_DUMP: one file for the program after each stage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace yaglom::compiler {

/// `text` with everything but letters, digits, '_', '.' and '-' as '_', and not too long: a part of a file's name.
std::string fileName(llvm::StringRef text);

/// The files of one compilation: FOLDER/PROGRAM.01-formula.mlir and so on, in the order of the stages. Without YAGLOM_DUMP it
/// is off. A file of the same name is replaced; a folder that cannot be written to is a warning.
class Dump {
public:
  /// `program` names what is compiled: "performer.forward.host.f32.64x64".
  explicit Dump(llvm::StringRef program);

  bool isOn() const { return folder.has_value(); }
  /// The next file; `extension` without the dot.
  void write(llvm::StringRef stage, llvm::StringRef extension, llvm::StringRef text);

private:
  std::optional<std::string> folder;
  std::string program;
  int count = 0;
};

} // namespace yaglom::compiler
