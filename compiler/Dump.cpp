// Plain files. They are for people: what goes wrong with them never fails a compilation.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dump.h"

#include "support/Debugging.h"
#include "support/Warning.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace yaglom::compiler {

std::string fileName(llvm::StringRef text) {
  constexpr std::size_t kLongest = 120; // most file systems take 255 bytes
  std::string name = text.take_front(kLongest).str();
  for (char &c : name)
    if (!llvm::isAlnum(c) && !llvm::StringRef("_.-").contains(c))
      c = '_';
  return name;
}

Dump::Dump(llvm::StringRef program) : folder(dumpFolder()), program(fileName(program)) {
  if (!folder)
    return;
  if (const std::error_code error = llvm::sys::fs::create_directories(*folder)) {
    warn(fmt::format("YAGLOM_DUMP: cannot make the folder '{}': {}", *folder, error.message()));
    folder.reset();
  }
}

void Dump::write(llvm::StringRef stage, llvm::StringRef extension, llvm::StringRef text) {
  if (!folder)
    return;
  const std::string path =
      fmt::format("{}/{}.{:02}-{}.{}", *folder, program, ++count, fileName(stage), extension.str());
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (!error) {
    file << text;
    file.close();
    error = file.error();
    file.clear_error(); // the stream would end the process
  }
  if (error)
    warn(fmt::format("YAGLOM_DUMP: cannot write '{}': {}", path, error.message()));
}

} // namespace yaglom::compiler
