// export: which files it writes, what it refuses, and that it replaces its own files alone.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <filesystem>

using namespace yaglom::cli;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// Of the small attention `plain`, into the temporary folder `name`.
Outcome exportPlain(const std::string &name, const std::vector<std::string> &more = {}) {
  std::vector<std::string> words{"export", "specs/good.phi", "--attention", "plain", "--head-dim", "8",
                                 "-o",     temporary(name)};
  words.insert(words.end(), more.begin(), more.end());
  return tool(words);
}

std::string fileOf(const std::string &folder, const std::string &name) {
  return readFile(temporary(folder) + "/" + name);
}

} // namespace

TEST_CASE("export writes its files, prints their paths, and writes the same bytes again") {
  const Outcome outcome = exportPlain("first");
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  std::string expected;
  for (const char *name : {"plain_host_forward.o", "plain.h", "plain.c", "plainConfig.cmake", "plain.safetensors"})
    expected += temporary("first") + "/" + name + "\n";
  CHECK(outcome.out == expected);
  REQUIRE(exportPlain("second").code == 0);
  REQUIRE(exportPlain("second").code == 0); // over its own files
  for (const char *name : {"plain_host_forward.o", "plain.h", "plain.c", "plainConfig.cmake", "plain.safetensors"}) {
    CHECK(fileOf("first", name) != "");
    CHECK(fileOf("first", name) == fileOf("second", name));
  }
  CHECK(contains(fileOf("first", "plain.h"), "const plain_number *plain_gain; /**< plain.gain [H], starts as 2 */"));
  CHECK_FALSE(contains(fileOf("first", "plain.h"), "plain_backward"));
}

TEST_CASE("export replaces no file of another, unless it is forced to, and writes nothing then") {
  std::filesystem::create_directory(temporary("taken"));
  writeFile(temporary("taken") + "/plain.h", "mine");
  const Outcome outcome = exportPlain("taken");
  CHECK(outcome.code == 1);
  CHECK(outcome.err == temporary("taken") + "/plain.h: exists, and no export wrote it; --force replaces it\n");
  CHECK(fileOf("taken", "plain.h") == "mine");
  CHECK_FALSE(std::filesystem::exists(temporary("taken") + "/plain.c"));
  CHECK(exportPlain("taken", {"--force"}).code == 0);
  CHECK(fileOf("taken", "plain.h") != "mine");
}

TEST_CASE("export refuses targets that do not go together, or are no targets of it") {
  const auto refused = [](const std::vector<std::string> &more) {
    const Outcome outcome = exportPlain("refused", more);
    CHECK(outcome.code == 1);
    return outcome.err;
  };
  CHECK(contains(refused({"--target", "sm_80,host"}), "an export for a GPU has one target"));
  CHECK(contains(refused({"--target", "host", "--target", "host"}), "target 'host' is given twice"));
  CHECK(contains(refused({"--target", "reference"}),
                 "no code can be exported for 'reference'; expected host, x86-64-v3"));
  CHECK(contains(refused({"--target", "cuda"}), "no code can be exported for 'cuda'"));
  CHECK(contains(refused({"--target", "emulated"}), "no code can be exported for 'emulated'"));
  CHECK(contains(refused({"--dtype", "bf16"}), "processors compute with f32 or f64, found bf16"));
  CHECK(contains(refused({"--name", "a-b"}), "the name of an export is one of a C function, found 'a-b'"));
  CHECK(contains(refused({"--name", "double"}), "found 'double'"));
  CHECK(contains(refused({"--heads", "65537"}), "heads must be from 1 to 65536, found 65537"));
  CHECK(exportPlain("refused", {"--target", "mars"}).code == 2);
  CHECK(exportPlain("refused", {"--heads", "0"}).code == 2);
  CHECK_FALSE(std::filesystem::exists(temporary("refused")));
}

TEST_CASE("a folder that cannot be made is named") {
  writeFile(temporary("file"), "");
  const Outcome outcome = exportPlain("file/below");
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, temporary("file/below") + ": "));
}
