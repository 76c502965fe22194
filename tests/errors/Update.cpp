// Rewrites the expected output in tests/errors and docs/errors.md. Read the difference before you commit it.
// SPDX-License-Identifier: Apache-2.0
#include "tests/errors/Golden.h"

#include <cstdio>
#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fputs("usage: update-errors CHECKOUT\n", stderr);
    return 2;
  }
  using namespace yaglom::errors;
  std::string root = argv[1];
  std::vector<Case> cases = readCases(root + "/tests/errors");
  for (Case &c : cases) {
    std::string output = actual(c);
    if (output == c.expected)
      continue;
    std::printf("%s\n", c.name.c_str());
    std::ofstream(root + "/tests/errors/" + c.name, std::ios::binary) << fileText(c, output);
    c.expected = output;
  }
  std::ofstream(root + "/docs/errors.md", std::ios::binary) << document(cases);
  return 0;
}
