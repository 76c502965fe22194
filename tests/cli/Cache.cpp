// yaglom cache: processes that share a folder, and the commands that look after it.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <thread>
#include <vector>

using namespace yaglom::cli;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// A cache folder of its own for one test.
class CacheFolder {
public:
  explicit CacheFolder(const std::string &name) : path(temporary(name)), variable("YAGLOM_CACHE_DIR", path) {}

  std::vector<nlohmann::json> list() const {
    std::vector<nlohmann::json> entries;
    std::istringstream lines(tool({"cache", "list", "--json"}).out);
    for (std::string line; std::getline(lines, line);)
      entries.push_back(nlohmann::json::parse(line));
    return entries;
  }

  const std::string path;

private:
  const Variable variable;
};

std::vector<std::string> bench(const std::string &width = "4") {
  return {"bench",  "specs/good.phi", "--attention", "plain",     "--head-dim", width,       "--length",
          "9",      "--heads",        "1",           "--threads", "1",          "--seconds", "0.001",
          "--json", "--backward",     "--residual",  "1"};
}

double compileMilliseconds(const Outcome &outcome) {
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.out)["compile_ms"];
}

} // namespace

TEST_CASE("a second process compiles nothing") {
  const CacheFolder folder("second");
  const double cold = compileMilliseconds(tool(bench())), warm = compileMilliseconds(tool(bench()));
  CHECK(warm < cold / 5);
  const auto entries = folder.list();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0]["kind"] == "backward from residual");
  CHECK(entries[1]["kind"] == "forward");
  CHECK(entries[1]["what"] == "plain, host f32, d=4, e=4, m=6");
}

TEST_CASE("sixteen processes that start cold on one folder make one artefact, and all succeed") {
  const CacheFolder folder("sixteen");
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i)
    children.push_back(startTool(bench("5")));
  for (const pid_t child : children)
    CHECK(exitCode(child) == 0);
  int entries = 0, locks = 0, others = 0;
  for (const auto &file : std::filesystem::directory_iterator(folder.path)) {
    const std::string name = file.path().filename();
    ++(name.ends_with(".entry") ? entries : name.starts_with("lock-") ? locks : others);
  }
  CHECK(entries == 2); // forward, and the gradient
  CHECK(locks <= 2);
  CHECK(others == 0);
}

TEST_CASE("a damaged entry is told by verify, and compiled again by whoever needs it") {
  const CacheFolder folder("damaged");
  REQUIRE(tool(bench("6")).code == 0);
  CHECK(tool({"cache", "verify"}).out == "0 damaged\n");
  const std::string path = folder.path + "/" + folder.list()[0]["name"].get<std::string>();
  std::string bytes = readFile(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  writeFile(path, bytes);
  const Outcome found = tool({"cache", "verify"});
  CHECK(found.code == 1);
  CHECK(contains(found.out, ": the checksum is wrong\n1 damaged\n"));
  CHECK(contains(tool({"cache", "list"}).out, "damaged: the checksum is wrong"));
  const Outcome again = tool(bench("6"));
  CHECK(again.code == 0);
  CHECK(again.err == "");
  CHECK(tool({"cache", "verify"}).code == 0);
}

TEST_CASE("path, prune and clear") {
  const CacheFolder folder("kept");
  CHECK(tool({"cache", "path"}).out == folder.path + "\n");
  CHECK(contains(tool({"cache", "list"}).out, "0 entries, 0 bytes, in " + folder.path));
  REQUIRE(tool(bench("7")).code == 0);
  CHECK(tool({"cache", "prune"}).code == 2);
  CHECK(tool({"cache", "prune", "--max-size", "many"}).code == 2);
  CHECK(tool({"cache", "prune", "--max-size", "1GB"}).out == "0 files removed, 0 bytes\n");
  CHECK(contains(tool({"cache", "prune", "--max-size", "1"}).out, "2 files removed, "));
  CHECK(folder.list().empty());
  REQUIRE(tool(bench("7")).code == 0);
  CHECK(contains(tool({"cache", "clear"}).out, "2 files removed, "));
  CHECK(tool({"cache"}).code == 2);
}

TEST_CASE("a folder that others may write to is not used, and that is said once") {
  const CacheFolder folder("open");
  std::filesystem::create_directory(folder.path);
  std::filesystem::permissions(folder.path, std::filesystem::perms(0777));
  const Outcome outcome = tool(bench());
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "warning: the cache folder is not used, compiled code stays in memory: '" + folder.path +
                           "' may be written by others (mode 777)\n");
  const Outcome list = tool({"cache", "list"});
  CHECK(list.code == 1);
  CHECK(list.err == "'" + folder.path + "' may be written by others (mode 777)\n");
}

TEST_CASE("an empty YAGLOM_CACHE_DIR means no folder") {
  const Variable none("YAGLOM_CACHE_DIR", "");
  const Outcome outcome = tool({"cache", "list"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err ==
        "there is no cache folder: YAGLOM_CACHE_DIR is empty, or neither XDG_CACHE_HOME nor HOME is set\n");
}
