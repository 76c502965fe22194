// Small kernels for tests.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"

#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace yaglom::emulator::test {
namespace {

constexpr const char *kNames[] = {"%a", "%b", "%c", "%e"};

std::string registerOf(const std::string &name, unsigned bits) {
  return bits == 1 ? fmt::format("  .reg .pred {};\n", name) : fmt::format("  .reg .b{} {};\n", bits, name);
}

std::string loadInput(std::size_t index, unsigned bits) {
  std::string code =
      fmt::format("  ld.param.u64 %in, [p{}];\n  add.u64 %in, %in, %lane8;\n  ld.global.u64 %v, [%in];\n", index);
  const char *name = kNames[index];
  if (bits == 64)
    return code + fmt::format("  mov.b64 {}, %v;\n", name);
  if (bits == 1)
    return code + fmt::format("  setp.ne.u64 {}, %v, 0;\n", name);
  return code + fmt::format("  cvt.u{}.u64 {}, %v;\n", bits, name);
}

} // namespace

std::string header(const std::string &target) {
  return fmt::format(".version 8.6\n.target {}\n.address_size 64\n", target);
}

std::string textOf(const Example &example) {
  std::string text = header(example.target) + ".visible .entry k(.param .u64 out";
  for (std::size_t i = 0; i < example.inputs.size(); ++i)
    text += fmt::format(", .param .u64 p{}", i);
  text += ")\n{\n  .reg .b64 %in, %v, %lane8, %to;\n  .reg .b32 %t;\n" + registerOf("%d", example.outBits);
  for (std::size_t i = 0; i < example.inputs.size(); ++i)
    text += registerOf(kNames[i], example.inputs[i].bits);
  text += "  mov.u32 %t, %tid.x;\n  mul.wide.u32 %lane8, %t, 8;\n";
  for (std::size_t i = 0; i < example.inputs.size(); ++i)
    text += loadInput(i, example.inputs[i].bits);
  text += "  " + example.code + "\n  ld.param.u64 %to, [out];\n  add.u64 %to, %to, %lane8;\n";
  text += example.outBits == 64  ? "  mov.b64 %v, %d;\n"
          : example.outBits == 1 ? "  selp.b64 %v, 1, 0, %d;\n"
                                 : fmt::format("  cvt.u64.u{} %v, %d;\n", example.outBits);
  return text + "  st.global.u64 [%to], %v;\n  ret;\n}\n";
}

std::vector<uint64_t> evaluate(const Example &example) {
  std::vector<uint64_t> out(32, 0xdeadbeef);
  std::vector<std::vector<uint64_t>> inputs;
  std::vector<Buffer> buffers = {buffer("out", out, true, false)};
  inputs.reserve(example.inputs.size());
  for (const In &in : example.inputs) {
    std::vector<uint64_t> &values = inputs.emplace_back(32);
    for (std::size_t lane = 0; lane < 32; ++lane)
      values[lane] = in.values[lane % in.values.size()];
    buffers.push_back(buffer(fmt::format("in{}", inputs.size()), values, false));
  }
  const Report report = execute(textOf(example), buffers);
  CHECK(report.findingsText() == "");
  return out;
}

void check(const Example &example) {
  INFO(example.code);
  const std::vector<uint64_t> found = evaluate(example);
  for (std::size_t lane = 0; lane < example.expected.size(); ++lane) {
    INFO("lane " << lane);
    CHECK(fmt::format("0x{:x}", found[lane]) == fmt::format("0x{:x}", example.expected[lane]));
  }
}

std::string kernel(const std::string &body, unsigned pointers, const std::string &shared, const std::string &target) {
  const bool outside = shared.find(".extern") != std::string::npos || shared.find(".const") != std::string::npos;
  std::string text = header(target) + (outside ? shared : "") + "\n.visible .entry k(";
  for (unsigned i = 0; i < pointers; ++i)
    text += fmt::format("{}.param .u64 p{}", i ? ", " : "", i);
  text += ")\n{\n  .reg .b32 %r<50>;\n  .reg .b64 %rd<50>;\n  .reg .f32 %f<50>;\n  .reg .f64 %fd<20>;\n  .reg .b16 "
          "%h<20>;\n"
          "  .reg .pred %q<20>;\n  .reg .b64 %p<8>;\n";
  if (!outside)
    text += "  " + shared + "\n";
  text += "  mov.u32 %r49, %tid.x;\n  mul.wide.u32 %rd49, %r49, 4;\n";
  for (unsigned i = 0; i < pointers; ++i)
    text += fmt::format("  ld.param.u64 %p{}, [p{}];\n", i, i);
  return text + body + "\n  ret;\n}\n";
}

Report execute(const std::string &text, const std::vector<Buffer> &buffers, std::array<uint32_t, 3> grid,
               std::array<uint32_t, 3> block, uint64_t sharedBytes, const Options &options) {
  const Result<Module> module = Module::parse(text);
  INFO(text);
  INFO((module ? "" : module.error().what()));
  REQUIRE(module);
  Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.dynamicSharedBytes = sharedBytes;
  for (const Buffer &buffer : buffers)
    launch.arguments.push_back(Pointer{buffer.name, 0});
  Result<Report> report = run(*module, launch, buffers, options);
  INFO((report ? "" : report.error().what()));
  REQUIRE(report);
  return *report;
}

std::string readPtx(const std::string &name) {
  std::ifstream file(std::string(YAGLOM_SOURCE_DIR "/tests/emulator/ptx/") + name);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Example> allExamples() {
  std::vector<Example> all;
  for (const auto &table : {integerExamples(), bitExamples(), floatExamples(), halfExamples(), functionExamples(),
                            convertExamples(), compareExamples(), warpExamples()})
    all.insert(all.end(), table.begin(), table.end());
  return all;
}

std::vector<NamedText> allTexts() {
  std::vector<NamedText> all;
  for (const auto &texts : {memoryTexts(), controlTexts(), matrixTexts()})
    all.insert(all.end(), texts.begin(), texts.end());
  return all;
}

} // namespace yaglom::emulator::test
