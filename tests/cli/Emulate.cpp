// The emulator on the command line: foreign PTX by `emulate`, our own kernels by `run --target emulated`.
// SPDX-License-Identifier: Apache-2.0
#include "support/Safetensors.h"
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <nlohmann/json.hpp>

using namespace yaglom;
using namespace yaglom::cli;

namespace {

/// y[i] = 2 x[i + SHIFT], one thread an entry.
std::string twice(const std::string &shift) {
  return ".version 7.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry twice(.param .u64 x, .param .u64 y)\n{\n"
         "  .reg .u32 %r<2>;\n  .reg .u64 %rd<5>;\n  .reg .f32 %f<3>;\n"
         "  ld.param.u64 %rd1, [x];\n  ld.param.u64 %rd2, [y];\n  mov.u32 %r1, %tid.x;\n"
         "  mul.wide.u32 %rd3, %r1, 4;\n  add.u64 %rd1, %rd1, %rd3;\n  add.u64 %rd2, %rd2, %rd3;\n"
         "  ld.global.f32 %f1, [%rd1+" +
         shift + "];\n  add.f32 %f2, %f1, %f1;\n  st.global.f32 [%rd2], %f2;\n  ret;\n}\n";
}

Outcome emulate(const std::string &ptx, std::vector<std::string> more = {}) {
  const std::string text = temporary("kernel.ptx"), input = temporary("emulate-in.safetensors");
  writeFile(text, ptx);
  Parameters tensors;
  Tensor x(DType::f32, {32});
  for (int64_t i = 0; i < x.size(); ++i)
    x.set(i, static_cast<double>(i));
  tensors.set("x", std::move(x));
  safetensors::write(input, tensors).value();
  std::vector<std::string> words{"emulate", text,       "--grid", "1",      "--block",
                                 "32",      "--inputs", input,    "--args", "x,y:out:F32:32"};
  words.insert(words.end(), more.begin(), more.end());
  return tool(words);
}

} // namespace

TEST_CASE("emulate runs a kernel of another's and writes what it wrote") {
  const std::string output = temporary("emulate-out.safetensors");
  const Outcome outcome = emulate(twice("0"), {"-o", output});
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  const safetensors::File file = safetensors::File::read(output).value();
  const Tensor y = file.load(*file.find("y"), DType::f64).value();
  for (int64_t i = 0; i < y.size(); ++i)
    CHECK(y.at(i) == 2.0 * static_cast<double>(i));
  const auto json = nlohmann::json::parse(emulate(twice("0"), {"--json"}).out);
  CHECK(json["finding_count"] == 0);
  CHECK(json["blocks"] == 1);
}

TEST_CASE("emulate exits 1 on a finding, and refuses what it does not know by line") {
  const Outcome outcome = emulate(twice("4"));
  CHECK(outcome.code == 1);
  CHECK((outcome.out + outcome.err).find("out of bounds") != std::string::npos);
  std::string unknown = twice("0");
  unknown.replace(unknown.find("add.f32"), 7, "frobnicate.f32");
  const Outcome refused = emulate(unknown);
  CHECK(refused.code == 1);
  CHECK(refused.err.find("frobnicate") != std::string::npos);
  CHECK(refused.err.find("line 16") != std::string::npos);
}

TEST_CASE("run prints what the emulator counted") {
  const std::string input = temporary("counted.safetensors"), output = temporary("counted-out.safetensors");
  Parameters tensors;
  for (const char *name : {"Q", "K", "V"})
    tensors.set(name, Tensor(DType::f32, {1, 1, 40, 16}));
  safetensors::write(input, tensors).value();
  const std::vector<std::string> words{"run",     "specs/good.phi", "--attention", "plain",    "--input",
                                       input,     "--output",       output,        "--target", "emulated",
                                       "--dtype", "bf16",           "--counters"};
  const Outcome outcome = tool(words);
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find("forward: blocks 1") != std::string::npos);
  CHECK(outcome.out.find("mma.sync.aligned.m16n8k16") != std::string::npos);
}
