// Every golden message is exactly what the front end says, and every message of the front end has a golden file.
// SPDX-License-Identifier: Apache-2.0
#include "tests/errors/Golden.h"
#include "tests/errors/Literals.h"
#include "tests/unit/Catch.h"

#include <filesystem>
#include <fstream>

using namespace yaglom;
using namespace yaglom::errors;

namespace {

const std::string kRoot = YAGLOM_SOURCE_DIR;

std::string readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

} // namespace

TEST_CASE("each spec in tests/errors gives exactly the output written below it") {
  std::vector<Case> cases = readCases(kRoot + "/tests/errors");
  REQUIRE(cases.size() >= 70);
  for (const Case &c : cases) {
    INFO(c.name);
    CHECK_FALSE(c.expected.empty());
    CHECK(actual(c) == c.expected);
  }
}

TEST_CASE("every message in the sources of the front end occurs in some golden file") {
  std::string golden;
  for (const Case &c : readCases(kRoot + "/tests/errors"))
    golden += c.expected;
  size_t messages = 0;
  for (const auto &entry : std::filesystem::directory_iterator(kRoot + "/frontend")) {
    if (entry.path().extension() != ".cpp")
      continue;
    for (const std::string &format : messageFormats(readFile(entry.path()))) {
      ++messages;
      INFO(entry.path().filename().string() << ": " << format);
      CHECK((occurs(format, golden) || hasNoGoldenFile(format)));
    }
  }
  // A scanner that finds nothing would pass.
  CHECK(messages > 100);
}

TEST_CASE("a message that no golden file shows is noticed") {
  std::vector<std::string> formats =
      messageFormats("x; diagnostics.error(r, fmt::format(\"never {} said before\", \"a)\")); y;");
  REQUIRE(formats == std::vector<std::string>{"never {} said before"});
  CHECK_FALSE(occurs(formats[0], "spec:1:1: error: never once said\n"));
  CHECK(occurs(formats[0], "spec:1:1: error: never once said before\n"));
}

TEST_CASE("docs/errors.md is what update-errors writes") {
  CHECK(readFile(kRoot + "/docs/errors.md") == document(readCases(kRoot + "/tests/errors")));
}
