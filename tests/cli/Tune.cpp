// yaglom tune as a user calls it: what it prints and keeps, Ctrl-C, and files of schedules.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace yaglom::cli;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// The tool with a cache folder of this test alone.
class WithCache {
public:
  explicit WithCache(const char *name) {
    if (const char *value = std::getenv(kVariable))
      before = value;
    setenv(kVariable, temporary(name).c_str(), 1);
  }
  ~WithCache() { before ? setenv(kVariable, before->c_str(), 1) : unsetenv(kVariable); }

private:
  static constexpr const char *kVariable = "YAGLOM_CACHE_DIR";
  std::optional<std::string> before;
};

std::vector<std::string> tune(const std::string &attention, const std::string &budget) {
  return {"tune", "specs/good.phi", "--attention", attention,   "--heads", "1",        "--length",
          "40",   "--head-dim",     "4",           "--threads", "1",       "--budget", budget};
}

std::vector<std::string> with(std::vector<std::string> command, const std::vector<std::string> &more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::set<std::string> measured(const nlohmann::json &report, bool isNew) {
  std::set<std::string> schedules;
  for (const auto &candidate : report["candidates"])
    if (candidate["outcome"] == "measured" && candidate["new"] == isNew && candidate["schedule"] != "default")
      schedules.insert(candidate["schedule"]);
  return schedules;
}

} // namespace

TEST_CASE("tune prints an object, and a second process measures nothing twice") {
  const WithCache cache("tune-json");
  const Outcome first = tool(with(tune("plain", "3"), {"--json"}));
  REQUIRE(first.code == 0);
  const auto report = nlohmann::json::parse(first.out);
  CHECK(report["attention"] == "plain");
  CHECK(report["pass"] == "forward");
  CHECK(contains(report["bucket"], "up to 64 tokens, "));
  CHECK(report["seconds"] < 4.5);
  CHECK(report["default_ms"] > 0);
  CHECK(report["tuned_ms"] > 0);
  CHECK(report["ratio"] <= 1);
  REQUIRE(!measured(report, true).empty());
  CHECK(contains(first.err, " s  "));
  CHECK(contains(first.err, " of the compiler's own\n"));

  const auto second = nlohmann::json::parse(tool(with(tune("plain", "2"), {"--json"})).out);
  CHECK(measured(second, false) == measured(report, true));
  for (const std::string &schedule : measured(second, true))
    CHECK(!measured(report, true).contains(schedule));
}

TEST_CASE("tune prints a table, for the gradient too") {
  const WithCache cache("tune-table");
  const Outcome outcome = tool(with(tune("plain", "6"), {"--backward", "--residual"}));
  REQUIRE(outcome.code == 0);
  for (const char *line : {"plain forward, up to 64 tokens, ", "plain backward, ", "plain backward from residual, ",
                           "\nown        ", "\ntuned      ", "\ntried      "})
    CHECK(contains(outcome.out, line));
  const Outcome list = tool({"cache", "list"});
  CHECK(contains(list.out, "schedule: plain, host f32, d=4, e=4, m=6, forward, up to 64 tokens"));
  CHECK(contains(list.out, ", backward from residual, up to 64 tokens"));

  const std::string path = temporary("schedules.json");
  CHECK(tool({"cache", "export-schedules", path}).out == "3 tuned schedules written to " + path + "\n");
  CHECK(tool({"cache", "clear"}).code == 0);
  CHECK(tool({"cache", "import-schedules", path}).out ==
        "3 tuned schedules taken over, 0 of another machine or build left out\n");
  CHECK(contains(tool({"cache", "list"}).out, "3 entries, "));
  writeFile(path, "{}");
  const Outcome none = tool({"cache", "import-schedules", path});
  CHECK(none.code == 1);
  CHECK(none.err == path + ": expected tuned schedules, as 'yaglom cache export-schedules' writes them\n");
}

TEST_CASE("Ctrl-C ends tune and keeps what was measured") {
  const WithCache cache("tune-interrupt");
  const std::string err = temporary("tune-stderr"), out = temporary("tune-stdout");
  const std::vector<std::string> command = tune("plain", "100");
  const pid_t child = fork();
  if (child == 0) {
    for (const auto &[path, stream] : {std::pair{out, STDOUT_FILENO}, std::pair{err, STDERR_FILENO}})
      dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), stream);
    std::vector<char *> words{const_cast<char *>("yaglom")};
    for (const std::string &word : command)
      words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    if (chdir(YAGLOM_SOURCE_DIR "/tests/cli") == 0)
      execv(YAGLOM_TOOL, words.data());
    _exit(127);
  }
  for (int i = 0; i < 600 && !contains(readFile(err), "\n"); ++i) // until one is measured
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(contains(readFile(err), "interrupted: what was measured is kept\n"));
  CHECK(contains(readFile(out), " not reached, in "));
  const auto again = nlohmann::json::parse(tool(with(tune("plain", "0.1"), {"--json"})).out);
  CHECK(!measured(again, false).empty());
}

TEST_CASE("mistakes in the options of tune and in schedules are told") {
  CHECK(tool(with(tune("plain", "0"), {})).code == 2);
  const Outcome emulated = tool(with(tune("plain", "1"), {"--target", "emulated"}));
  CHECK(emulated.code == 1);
  CHECK(contains(emulated.err, "a kernel for 'emulated' cannot be tuned: times are measured on the machine itself"));
  const std::vector<std::string> emit = {"emit", "specs/good.phi", "--attention", "plain", "--stage", "scan"};
  CHECK(tool(with(emit, {"--schedule", "chunk=16,tile=4x2"})).code == 0);
  const Outcome field = tool(with(emit, {"--schedule", "chunk=0.5"}));
  CHECK(field.code == 2);
  CHECK(contains(field.err, "--schedule: schedule: expected a number from 1 to 4096 (0: the compiler chooses) for "
                            "'chunk', found '0.5'"));
  CHECK(tool(with(emit, {"--schedule", "chunk=16", "--chunk", "16"})).code == 2);
  const Outcome foreign = tool(with(emit, {"--schedule", "warps=4"}));
  CHECK(foreign.code == 1);
  CHECK(foreign.err ==
        "schedule: a kernel for 'host' has chunk, granule, tile, pointwise, unroll, prefetch and segments, "
        "found 'warps=4'\n");
  CHECK(tool(with(emit, {"--schedule", "warps=4", "--target", "sm_80"})).code == 0);
}
