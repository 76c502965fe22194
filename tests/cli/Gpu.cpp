// The target cuda on the command line: without a driver, and on the fake GPU that runs kernels; and what ptxas says.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <nlohmann/json.hpp>

#include <cstdlib>

using namespace yaglom::cli;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// The tool with `driver` for libcuda.so.1, which assembles.
Outcome withDriver(const char *driver, const std::vector<std::string> &arguments, const char *assembler = "driver") {
  setenv("YAGLOM_LIBCUDA", driver, 1);
  setenv("YAGLOM_ASSEMBLER", assembler, 1);
  const Outcome outcome = tool(arguments);
  unsetenv("YAGLOM_LIBCUDA");
  unsetenv("YAGLOM_ASSEMBLER");
  return outcome;
}

std::vector<std::string> bench(const std::string &target) {
  return {"bench",     "specs/good.phi", "--attention", "plain",   "--target",   target,    "--head-dim",
          "4",         "--length",       "9",           "--heads", "1",          "--batch", "2",
          "--seconds", "0.001",          "--dtype",     "bf16",    "--backward", "--json"};
}

} // namespace

TEST_CASE("without a driver each command says so once, and exits 1") {
  const std::vector<std::string> gradcheck = {"gradcheck", "specs/good.phi", "--attention", "both", "--target", "cuda"};
  const std::vector<std::string> emit = {"emit", "specs/good.phi", "--attention", "both", "--stage",
                                         "ptx",  "--target",       "cuda"};
  for (const std::vector<std::string> &command : {bench("cuda"), gradcheck, emit}) {
    const Outcome outcome = withDriver("/none/libcuda.so.1", command);
    CHECK(outcome.code == 1);
    CHECK(outcome.out == "");
    CHECK(outcome.err ==
          "no CUDA driver: /none/libcuda.so.1: cannot open shared object file: No such file or directory; "
          "install NVIDIA's driver (the CUDA toolkit does not contain it), or give the container its GPUs\n");
  }
}

TEST_CASE("a GPU that is not there is told with those that are") {
  const Outcome outcome = withDriver(YAGLOM_FAKE_GPU, bench("cuda:3"));
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "there is no CUDA device 3: the driver sees 1, numbered from 0 to 0\n");
  CHECK(withDriver(YAGLOM_FAKE_GPU, bench("cuda:x")).code == 2);
}

TEST_CASE("bench on a GPU prints times, and what memory and tensor cores need at least") {
  const Outcome outcome = withDriver(YAGLOM_FAKE_GPU, bench("cuda"));
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["device"] == "Fake H100");
  // Q, K, V and O of 2 x 1 x 9 x 4 elements of two bytes, at 3.35 TB/s.
  CHECK(json["memory_floor_ms"].get<double>() == Approx(4 * 72 * 2 / 3.35e9));
  CHECK(json["backward_memory_floor_ms"].get<double>() == Approx(7 * 72 * 2 / 3.35e9));
  for (const char *name : {"ms_median", "ms_min", "gflops", "tensor_floor_ms", "share_of_memory", "share_of_tensor",
                           "backward_ms_median", "backward_share_of_memory", "tokens_per_s"})
    CHECK(json[name].get<double>() > 0);
  std::vector<std::string> table = bench("cuda");
  table.pop_back();
  const Outcome printed = withDriver(YAGLOM_FAKE_GPU, table);
  CHECK(contains(printed.out, "plain on Fake H100 (sm_90), B 2 H 1 N 9, bf16"));
  CHECK(contains(printed.out, "% of its bandwidth"));
  CHECK(contains(printed.out, "% of the bf16 tensor-core peak"));
}

TEST_CASE("where ptxas makes code that the driver refuses, the driver assembles") {
  CHECK(withDriver(YAGLOM_FAKE_GPU, bench("cuda"), "").code == 0);
}

TEST_CASE("gradcheck compares a GPU's float32 with the reference") {
  const Outcome outcome = withDriver(YAGLOM_FAKE_GPU, {"gradcheck", "specs/good.phi", "--attention", "both", "--target",
                                                       "cuda", "--dtype", "f32", "--length", "5", "--head-dim", "4"});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "grad.V "));
  CHECK(!contains(outcome.out, "WRONG"));
  CHECK(tool({"gradcheck", "specs/good.phi", "--attention", "both", "--dtype", "bf16"}).code == 2);
}

TEST_CASE("sass-info needs a GPU and an assembler, and says which is missing") {
  std::vector<std::string> command = {"emit", "specs/good.phi", "--attention", "plain", "--stage", "sass-info"};
  const Outcome none = withDriver("", command, "/none/ptxas");
  CHECK(none.code == 1);
  CHECK(none.err == "sass-info needs NVIDIA's assembler: no assembler for PTX: YAGLOM_ASSEMBLER: /none/ptxas is not a "
                    "program\n");
  if (contains(tool(command).err, "needs NVIDIA's assembler"))
    return;
  CHECK(tool(command).err == "target 'host' has no stage 'sass-info'; name a GPU: --target sm_90\n");
  command.insert(command.end(), {"--target", "sm_90", "--dtype", "bf16"});
  const Outcome table = tool(command);
  CHECK(table.code == 0);
  CHECK(contains(table.out, "registers spilled"));
  CHECK(contains(table.out, "\nforward "));
  command.push_back("--json");
  const auto json = nlohmann::json::parse(tool(command).out);
  CHECK(json["architecture"] == "sm_90");
  for (const auto &kernel : json["kernels"]) {
    CHECK(kernel["registers"] > 0);
    CHECK(kernel["spill_store_bytes"].is_number());
  }
  command.push_back("--backward");
  CHECK(nlohmann::json::parse(tool(command).out)["kernels"][0]["kernel"] == "backward");
}

TEST_CASE("tune on a GPU checks candidates by the emulator and times them there") {
  const Outcome outcome =
      withDriver(YAGLOM_FAKE_GPU, {"tune", "specs/good.phi", "--attention", "plain", "--target", "cuda", "--head-dim",
                                   "4", "--length", "9", "--heads", "1", "--budget", "4", "--json"});
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  int measured = 0;
  for (const auto &candidate : json["candidates"]) {
    INFO(candidate.dump());
    CHECK((candidate["outcome"] == "measured" || candidate["outcome"] == "not reached"));
    measured += candidate["outcome"] == "measured" && candidate["schedule"] != "default";
  }
  CHECK(measured >= 1);
}
