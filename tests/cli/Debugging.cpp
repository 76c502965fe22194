// YAGLOM_DUMP, YAGLOM_PROFILE and emit --locations: what a user sees of a compilation and of compiled code.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <filesystem>
#include <regex>
#include <set>

namespace fs = std::filesystem;
using namespace yaglom::cli;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

std::set<std::string> filesIn(const std::string &folder) {
  std::set<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

Outcome emit(const std::string &stage, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"emit", "specs/good.phi", "--attention", "plain", "--head-dim",
                                        "8",    "--stage",        stage};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tool(arguments);
}

/// A command that compiles and runs `plain`.
std::vector<std::string> benchPlain() {
  return {"bench", "specs/good.phi", "--attention", "plain",   "--head-dim", "8",         "--length",
          "64",    "--threads",      "1",           "--heads", "1",          "--seconds", "0.001"};
}

} // namespace

TEST_CASE("YAGLOM_DUMP writes the program after every stage, by its name and number") {
  const std::string folder = temporary("dump/deep");
  const Variable dump("YAGLOM_DUMP", folder);
  REQUIRE(emit("ptx", {"--target", "sm_80", "--backward"}).code == 0);
  const std::string name = "plain.backward.sm_80.f32.d8-e8-m6.";
  CHECK(filesIn(folder) ==
        std::set<std::string>{name + "01-formula.mlir", name + "02-simplify.mlir", name + "03-scan.mlir",
                              name + "04-differentiate.mlir", name + "05-tile.mlir", name + "06-gpu.mlir",
                              name + "07-llvm-dialect.mlir", name + "08-llvm.ll", name + "09-ptx.ptx"});
  CHECK(contains(readFile(folder + "/" + name + "03-scan.mlir"), "phi.scan"));
  CHECK(contains(readFile(folder + "/" + name + "05-tile.mlir"), "linalg.generic"));
  CHECK(contains(readFile(folder + "/" + name + "09-ptx.ptx"), ".entry"));
}

TEST_CASE("a kernel that runs is dumped too, whatever the cache holds") {
  const std::string cacheFolder = temporary("dump-cache");
  const Variable cache("YAGLOM_CACHE_DIR", cacheFolder);
  for (const char *turn : {"first", "second"}) {
    const Variable dump("YAGLOM_DUMP", temporary(turn));
    REQUIRE(tool(benchPlain()).code == 0);
    const std::set<std::string> files = filesIn(temporary(turn));
    CHECK(files.size() == 8);
    CHECK(contains(readFile(temporary(turn) + "/" + *files.rbegin()), "yaglom:plain:forward"));
  }
}

TEST_CASE("a folder of YAGLOM_DUMP that cannot be written to is one warning and no failure") {
  const Variable dump("YAGLOM_DUMP", "/proc/yaglom");
  const Outcome outcome = emit("scan");
  CHECK(outcome.code == 0);
  CHECK(outcome.err.starts_with("warning: YAGLOM_DUMP: cannot make the folder '/proc/yaglom': "));
  CHECK(contains(outcome.out, "phi.scan"));
}

TEST_CASE("emit --locations says where in the spec an operation comes from, and changes nothing else") {
  const std::regex comment(R"( // [^\n]*)"), place(R"( // good\.phi:1\d:\d+)");
  for (const char *stage : {"formula", "scan", "tile"}) {
    const std::string plain = emit(stage).out, annotated = emit(stage, {"--locations"}).out;
    CHECK(plain != annotated);
    CHECK(std::regex_search(annotated, place));
    CHECK(std::regex_replace(annotated, comment, "") == plain);
  }
  CHECK(contains(emit("scan", {"--locations"}).out, " // good.phi:18:14"));
}

TEST_CASE("LLVM IR, assembly and PTX say it too") {
  const std::string llvm = emit("llvm", {"--locations"}).out;
  CHECK(std::regex_search(llvm, std::regex(R"( ; good\.phi:18:\d+)")));
  CHECK(!contains(llvm, "!dbg"));
  CHECK(std::regex_replace(llvm, std::regex(R"( +; good\.phi[^\n]*)"), "") == emit("llvm").out);
  const std::regex comment(R"(\t(#|//) (good\.phi|sampler)[^\n]*\n)");
  const std::string assembly = emit("asm", {"--locations"}).out;
  CHECK(std::regex_search(assembly, std::regex(R"(\t# good\.phi:18:\d+\n)")));
  CHECK(std::regex_replace(assembly, comment, "") == emit("asm").out);
  const std::string ptx = emit("ptx", {"--locations", "--target", "sm_80"}).out;
  CHECK(std::regex_search(ptx, std::regex(R"(\t// good\.phi:18:\d+\n)")));
  CHECK(std::regex_replace(ptx, comment, "") == emit("ptx", {"--target", "sm_80"}).out);
}

TEST_CASE("YAGLOM_PROFILE=perf writes the map that perf reads, with the names of kernels") {
  const Variable profile("YAGLOM_PROFILE", "perf");
  const Outcome outcome = tool(benchPlain());
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err == "");
  const std::string path = "/tmp/perf-" + std::to_string(outcome.pid) + ".map";
  const std::string map = readFile(path);
  fs::remove(path);
  CHECK(std::regex_search(map, std::regex("(^|\n)[0-9a-f]+ [1-9a-f][0-9a-f]* yaglom:plain:forward\n")));
  CHECK(contains(map, " yaglom:plain:advance\n"));
}

TEST_CASE("perf itself attributes samples to a kernel by its name") {
  const std::string data = temporary("perf.data");
  const auto record = [&] {
    std::vector<std::string> arguments = {"record", "-q", "-F", "2000", "-o", data, YAGLOM_TOOL};
    for (const std::string &argument : benchPlain())
      arguments.push_back(argument == "64" ? "8192" : argument == "0.001" ? "0.3" : argument);
    return command("perf", arguments);
  };
  const Variable profile("YAGLOM_PROFILE", "perf");
  if (!isInstalled("perf") || record().code != 0) {
    WARN("perf is not installed, or may not be used here");
    return;
  }
  const std::string report = command("perf", {"report", "-i", data, "--stdio", "--sort", "symbol"}).out;
  const std::string script = command("perf", {"script", "-i", data, "-F", "pid"}).out;
  fs::remove("/tmp/perf-" + std::to_string(std::atoi(script.c_str())) + ".map");
  CHECK(contains(report, "yaglom:plain:forward"));
}

TEST_CASE("YAGLOM_PROFILE=jitdump writes the code for perf inject") {
  const std::string folder = temporary("jitdump");
  fs::create_directory(folder);
  const Variable profile("YAGLOM_PROFILE", "jitdump"), place("JITDUMPDIR", folder);
  const Outcome outcome = tool(benchPlain());
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.out.starts_with("plain on host"));
  std::string dump;
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".dump")
      dump = readFile(entry.path());
  CHECK(contains(dump, "yaglom:plain:forward"));
  CHECK(contains(dump, "good.phi")); // the table of lines
}

TEST_CASE("gdb stops in a kernel by its name and knows the line of the spec") {
  if (!isInstalled("gdb")) {
    WARN("gdb is not installed");
    return;
  }
  const Variable profile("YAGLOM_PROFILE", "gdb");
  std::vector<std::string> arguments = {"-q", "-batch", "-nx", "-iex", "set debuginfod enabled off"};
  for (const char *line : {"set breakpoint pending on", "break -function yaglom:plain:forward", "run", "backtrace 1"})
    arguments.insert(arguments.end(), {"-ex", line});
  arguments.insert(arguments.end(), {"--args", YAGLOM_TOOL});
  for (const std::string &argument : benchPlain())
    arguments.push_back(argument);
  const Outcome outcome = command("gdb", arguments);
  if (contains(outcome.err, "ptrace")) {
    WARN("gdb may not be used here: " << outcome.err);
    return;
  }
  CHECK(contains(outcome.out, "Breakpoint 1, "));
  CHECK(std::regex_search(outcome.out, std::regex("#0 +(0x[0-9a-f]+ in )?yaglom:plain:forward \\(\\)[^\n]*")));
  CHECK(contains(outcome.out, "good.phi:16"));
}

TEST_CASE("what YAGLOM_PROFILE does not know is a warning, and without it nothing is written") {
  {
    const Variable profile("YAGLOM_PROFILE", "perf,vtune");
    const Outcome outcome = tool(benchPlain());
    CHECK(outcome.code == 0);
    CHECK(outcome.err == "warning: YAGLOM_PROFILE: expected perf, jitdump or gdb, found 'vtune'\n");
    const std::string path = "/tmp/perf-" + std::to_string(outcome.pid) + ".map";
    CHECK(fs::exists(path));
    fs::remove(path);
  }
  const Outcome outcome = tool(benchPlain());
  CHECK(outcome.code == 0);
  CHECK(!fs::exists("/tmp/perf-" + std::to_string(outcome.pid) + ".map"));
}
