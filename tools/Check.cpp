// yaglom check: parses and checks specs. What all commands share with it is here too.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Commands.h"

#include <cstdio>

namespace yaglom::tools {

void printError(const std::string &text) {
  std::fputs(text.c_str(), stderr);
  if (text.empty() || text.back() != '\n')
    std::fputc('\n', stderr);
}

Spec loadSpec(const std::string &file) {
  Spec spec = Spec::parseFile(file).value();
  if (!spec.warnings().empty())
    printError(spec.warnings());
  return spec;
}

int check(const CheckOptions &options) {
  bool failed = false;
  for (const std::string &file : options.files)
    try {
      loadSpec(file);
    } catch (const Error &error) {
      printError(error.what());
      failed = true;
    }
  return failed ? kFailure : kSuccess;
}

} // namespace yaglom::tools
