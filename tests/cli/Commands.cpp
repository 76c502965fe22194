// check, describe, emit and bench: what they print and how they exit. A contract: scripts depend on it.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace yaglom::cli;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("check is silent about a good spec") {
  const Outcome outcome = tool({"check", "specs/good.phi"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "");
}

TEST_CASE("check prints the diagnostics as they are and exits 1") {
  const Outcome outcome = tool({"check", "specs/bad.phi"});
  CHECK(outcome.code == 1);
  CHECK(outcome.out == "");
  CHECK(isExpected(outcome.err, "check-bad.txt"));
}

TEST_CASE("check goes on after a file with mistakes") {
  const Outcome outcome = tool({"check", "specs/bad.phi", "specs/good.phi", "specs/none.phi"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "specs/bad.phi:2:10: error:"));
  CHECK(contains(outcome.err, "specs/none.phi"));
}

TEST_CASE("a warning is printed and is no failure") {
  const Outcome outcome = tool({"check", "specs/warning.phi"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.err, "specs/warning.phi:1:55: warning:"));
}

TEST_CASE("every shipped spec checks without a word") {
  const std::string folder = YAGLOM_SOURCE_DIR "/examples/specs/";
  for (const char *name : {"cosformer", "flexformer_n", "flexformer_s", "fska", "hedgehog", "linear_transformer",
                           "performer", "polaformer", "retention", "rfa", "samplers", "softmax"}) {
    const Outcome outcome = tool({"check", folder + name + ".phi"});
    CHECK(outcome.code == 0);
    CHECK(outcome.err == "");
  }
}

TEST_CASE("a mistake of usage exits 2 and says what is missing") {
  CHECK(tool({}).code == 2);
  CHECK(tool({"compile"}).code == 2);
  CHECK(tool({"check"}).code == 2);
  CHECK(tool({"describe", "specs/good.phi"}).code == 2);
  CHECK(tool({"describe", "specs/good.phi", "--attention", "both", "--head-dim", "x"}).code == 2);
  CHECK(tool({"describe", "specs/good.phi", "--attention", "both", "--head-dim", "0"}).code == 2);
  CHECK(tool({"describe", "specs/good.phi", "--attention", "both", "--set", "m"}).code == 2);
  CHECK(tool({"describe", "specs/good.phi", "--attention", "both", "--set", "m=x"}).code == 2);
  CHECK(tool({"emit", "specs/good.phi", "--attention", "both", "--stage", "object"}).code == 2);
  CHECK(tool({"emit", "specs/good.phi", "--attention", "both", "--stage", "ast", "--target", "z80"}).code == 2);
  CHECK(tool({"run", "specs/good.phi", "--attention", "both", "--input", "x"}).code == 2);
  CHECK(tool({"run", "specs/good.phi", "--attention", "both", "--input", "x", "--output", "y", "--target", "x86-64-v3"})
            .code == 2);
  CHECK(tool({"bench", "specs/good.phi", "--attention", "both", "--threads", "-1"}).code == 2);
  CHECK(contains(tool({"describe", "specs/good.phi"}).err, "--attention is required"));
}

TEST_CASE("help and version exit 0") {
  CHECK(tool({"--help"}).code == 0);
  CHECK(contains(tool({"--help"}).out, "describe"));
  CHECK(contains(tool({"run", "--help"}).out, "--draws"));
  CHECK(contains(tool({"--version"}).out, "yaglom 0."));
}

TEST_CASE("describe lists tensors, shapes and initial values") {
  const Outcome outcome = tool({"describe", "specs/good.phi", "--attention", "both", "--head-dim", "4"});
  CHECK(outcome.code == 0);
  CHECK(isExpected(outcome.out, "describe-both.txt"));
}

TEST_CASE("describe follows the widths and the dims that are set") {
  const Outcome outcome = tool({"describe", "specs/good.phi", "--attention", "gated", "--head-dim", "8", "--value-dim",
                                "3", "--set", "m=5", "--json"});
  CHECK(outcome.code == 0);
  CHECK(isExpected(outcome.out, "describe-gated.json"));
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["dims"] == nlohmann::json({{"d", 8}, {"e", 3}, {"m", 5}}));
  CHECK(json["tensors"][2]["axes"] == nlohmann::json({"B", "H", "N", 3}));
}

TEST_CASE("an unknown attention or dim is the spec's business and exits 1") {
  const Outcome attention = tool({"describe", "specs/good.phi", "--attention", "bothh"});
  CHECK(attention.code == 1);
  CHECK(contains(attention.err, "bothh"));
  CHECK(attention.out == "");
  const Outcome dim = tool({"describe", "specs/good.phi", "--attention", "both", "--set", "q=3"});
  CHECK(dim.code == 1);
  CHECK(contains(dim.err, "'q'"));
}

TEST_CASE("emit prints the canonical text, and again the same from it") {
  const Outcome first = tool({"emit", "specs/good.phi", "--attention", "both", "--stage", "ast"});
  CHECK(first.code == 0);
  CHECK(isExpected(first.out, "emit-ast.phi"));
  const std::string path = temporary("canonical.phi");
  writeFile(path, first.out);
  CHECK(tool({"emit", path, "--attention", "both", "--stage", "ast"}).out == first.out);
}

TEST_CASE("the reference has no stage but the tree") {
  const Outcome outcome =
      tool({"emit", "specs/good.phi", "--attention", "both", "--stage", "tile", "--target", "reference"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "the reference interprets the tree: it has the stage 'ast' alone\n");
}

TEST_CASE("bench prints one flat object") {
  const Outcome outcome = tool({"bench",       "specs/good.phi",
                                "--attention", "plain",
                                "--target",    "reference",
                                "--batch",     "2",
                                "--heads",     "1",
                                "--length",    "9",
                                "--head-dim",  "4",
                                "--set",       "m=5",
                                "--threads",   "1",
                                "--seconds",   "0.01",
                                "--json"});
  CHECK(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  for (const char *name :
       {"ms_median", "ms_min", "tokens_per_s", "gflops", "peak_gflops", "share_of_peak", "extra_bytes", "compile_ms"})
    CHECK(json[name].is_number());
  CHECK(json["ms_median"] > 0);
  CHECK(json["ms_min"] <= json["ms_median"]);
  CHECK(json["peak_gflops"] > 0.1);
  const nlohmann::json asked = {{"spec", "specs/good.phi"},
                                {"attention", "plain"},
                                {"target", "reference"},
                                {"batch", 2},
                                {"heads", 1},
                                {"length", 9},
                                {"head_dim", 4},
                                {"value_dim", 4},
                                {"set", "m=5"},
                                {"threads", 1},
                                {"dtype", "f32"},
                                {"chunk", 0}};
  for (const auto &[name, value] : asked.items())
    CHECK(json[name] == value);
  for (const auto &[name, value] : json.items())
    CHECK(!value.is_structured());
}

TEST_CASE("emit prints every stage, for this machine and for others") {
  for (const char *stage : {"formula", "scan", "tile", "llvm", "asm"}) {
    const Outcome outcome = tool({"emit", "specs/good.phi", "--attention", "gated", "--stage", stage});
    CHECK(outcome.err == "");
    CHECK(outcome.code == 0);
    CHECK(outcome.out.size() > 100);
  }
  const auto assembly = [](const char *target) {
    return tool({"emit", "specs/good.phi", "--attention", "gated", "--stage", "asm", "--target", target}).out;
  };
  CHECK(contains(assembly("x86-64-v4"), "%zmm"));
  CHECK(!contains(assembly("x86-64-v3"), "%zmm"));
  CHECK(contains(assembly("x86-64-v3"), "%ymm"));
}

TEST_CASE("bench measures compiled code") {
  const Outcome outcome = tool({"bench", "specs/good.phi", "--attention", "both", "--length", "100", "--heads", "2",
                                "--seconds", "0.05", "--threads", "1", "--json"});
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["gflops"] > 0);
  CHECK(json["share_of_peak"] > 0);
  CHECK(json["compile_ms"] > 1);
  CHECK(json["extra_bytes"] > 0);
}

TEST_CASE("bench prints a table") {
  const Outcome outcome = tool({"bench", "specs/good.phi", "--attention", "plain", "--target", "reference", "--length",
                                "9", "--head-dim", "4", "--seconds", "0.01"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "forward "));
}

TEST_CASE("emit shows the gradient's program too") {
  const std::vector<std::string> command = {"emit", "specs/good.phi", "--attention", "both", "--stage", "scan"};
  CHECK(!contains(tool(command).out, "@backward"));
  std::vector<std::string> backward = command;
  backward.push_back("--backward");
  const Outcome outcome = tool(backward);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "func.func @backward"));
  backward.push_back("--residual");
  CHECK(contains(tool(backward).out, "phi.takes_states = \"last\""));
  backward.back() = "--backward";
  const Outcome twice = tool(backward);
  CHECK(twice.code == 2);
  CHECK(contains(twice.err, "second derivatives are not supported"));
}

TEST_CASE("gradcheck compares every tensor and exits 0 when all agree") {
  const Outcome outcome =
      tool({"gradcheck", "specs/good.phi", "--attention", "both", "--length", "9", "--head-dim", "4"});
  CHECK(outcome.code == 0);
  for (const char *name : {"grad.Q ", "grad.K ", "grad.V "})
    CHECK(contains(outcome.out, name));
  CHECK(!contains(outcome.out, "WRONG"));
  const auto json = nlohmann::json::parse(
      tool({"gradcheck", "specs/good.phi", "--attention", "both", "--length", "9", "--head-dim", "4", "--json"}).out);
  CHECK(json["passed"] == true);
  CHECK(json["tensors"].size() >= 3);
  CHECK(tool({"gradcheck", "specs/good.phi", "--attention", "both", "--length", "0"}).code == 2);
}
