// Coverage of the decoder's table, refusals word for word, damaged texts, launch mistakes, mutants.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/emulator/Mutate.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>

namespace yaglom::emulator::test {
namespace {

std::string refusal(const std::string &text) {
  const Result<Module> module = Module::parse(text);
  return module ? "" : module.error().what();
}
std::string refusalOf(const std::string &instruction) { return refusal(kernel(instruction, 0)); }

std::string launchError(const std::string &text, const Launch &launch, const std::vector<Buffer> &buffers) {
  const Result<Report> report = run(Module::parse(text).value(), launch, buffers);
  return report ? "" : report.error().what();
}

} // namespace

TEST_CASE("every instruction and type that the decoder knows is in a test") {
  std::set<KnownInstruction> used;
  const auto use = [&](const std::string &text) {
    const Result<Module> module = Module::parse(text);
    INFO(text << (module ? "" : module.error().what()));
    REQUIRE(module);
    for (const KnownInstruction &instruction : usedInstructions(*module))
      used.insert(instruction);
  };
  for (const Example &example : allExamples())
    use(textOf(example));
  for (const NamedText &text : allTexts())
    use(text.text);
  for (const KnownInstruction &known : knownInstructions()) {
    INFO(known.opcode << " ." << toText(known.type));
    CHECK(used.contains(known));
  }
}

TEST_CASE("what is not known is refused by name and line") {
  const std::string at = "line 17: "; // of the first instruction of a kernel() body
  CHECK(refusalOf("  foo.bar %r1, %r2;") == at + "'foo.bar %r1, %r2': unknown instruction 'foo'");
  CHECK(refusalOf("  add.b32 %r1, %r2, %r3;") == at + "'add.b32 %r1, %r2, %r3': unknown form of instruction 'add'");
  CHECK(refusalOf("  add.foo.s32 %r1, %r2, %r3;") == at + "'add.foo.s32 %r1, %r2, %r3': unknown modifier '.foo'");
  CHECK(refusalOf("  add.s32 %r1, %r2;") == at + "'add.s32 %r1, %r2': expected 3 operands, found 2");
  CHECK(refusalOf("  add.s32 %r1, %r2, %rd1;") == at + "'add.s32 %r1, %r2, %rd1': '%rd1' has 64 bits; 32 are expected");
  CHECK(refusalOf("  mov.u32 %r1, %nothing;") == at + "'mov.u32 %r1, %nothing': unknown register '%nothing'");
  CHECK(refusalOf("  bra $nowhere;") == at + "'bra $nowhere': unknown label '$nowhere'");
  CHECK(refusalOf("  call foo;") == at + "'call': calls of functions are not supported");
  CHECK(refusalOf("  wgmma.fence.sync.aligned;") == at + "'wgmma.fence.sync.aligned': unknown instruction 'wgmma'");
  CHECK(refusalOf("  cp.async.bulk.commit_group;") == at + "'cp.async.bulk.commit_group': unknown modifier '.bulk'");
  CHECK(refusalOf("  mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};")
            .find("unknown shape or types of mma") != std::string::npos);
  CHECK(refusal("") == "line 1: 'the end of the text': a PTX text begins with .version");
  CHECK(refusal(".version 8.0\n.target sm_80\n.address_size 32\n").find("only .address_size 64 is supported") !=
        std::string::npos);
}

TEST_CASE("a text cut off at any line is refused or accepted, never a crash") {
  for (const char *name : {"reduce.ptx", "matmul.ptx"}) {
    const std::string text = readPtx(name);
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1)) {
      const Result<Module> module = Module::parse(text.substr(0, end));
      if (!module)
        CHECK(std::string(module.error().what()).starts_with("line "));
    }
  }
}

TEST_CASE("texts with random deletions are refused or run to a report") {
  std::vector<std::string> texts = {readPtx("reduce.ptx")};
  for (const NamedText &text : controlTexts())
    texts.push_back(text.text);
  std::mt19937 random(1);
  for (int round = 0; round < 600; ++round) {
    std::string text = texts[round % texts.size()];
    for (unsigned deletions = 1 + random() % 3; deletions > 0; --deletions) {
      const std::size_t at = random() % text.size();
      text.erase(at, 1 + random() % 6);
    }
    const Result<Module> module = Module::parse(text);
    if (!module || module->entries().empty())
      continue;
    std::vector<uint32_t> data(1024);
    Launch launch;
    launch.kernel = module->entries()[0].name;
    launch.block = {64, 1, 1};
    for (const Parameter &parameter : module->entries()[0].parameters)
      launch.arguments.push_back(parameter.bytes == 8 ? Argument(Pointer{"data"}) : Argument(int64_t{100}));
    Options options;
    options.instructionBudget = 2000;
    (void)run(*module, launch, {buffer("data", data)}, options);
  }
}

TEST_CASE("a mistake of the launch is named before anything runs") {
  std::vector<uint32_t> data(8);
  const std::vector<Buffer> buffers = {buffer("data", data)};
  const std::string text =
      header() + ".visible .entry k(.param .u64 p, .param .u32 n, .param .f32 s)\n.reqntid 64, 1, 1\n{ ret; }\n";
  const auto launch = [](std::vector<Argument> arguments, uint32_t threads = 64) {
    Launch made;
    made.block = {threads, 1, 1};
    made.arguments = std::move(arguments);
    return made;
  };
  const Argument p = Pointer{"data"}, n = int64_t{5}, s = 0.5;
  CHECK(launchError(text, launch({p, n, s}), buffers) == "");
  CHECK(launchError(text, launch({p, n}), buffers) == "kernel 'k' has 3 parameters; 2 arguments are given");
  CHECK(launchError(text, launch({p, s, s}), buffers) == "parameter 'n' is of type .u32, no fraction");
  CHECK(launchError(text, launch({p, p, s}), buffers) == "parameter 'n' is of type .u32, no pointer");
  CHECK(launchError(text, launch({Pointer{"x"}, n, s}), buffers) == "parameter 'p': there is no buffer 'x'");
  CHECK(launchError(text, launch({p, int64_t{1} << 40, s}), buffers) ==
        "parameter 'n': 1099511627776 does not fit 32 bits");
  CHECK(launchError(text, launch({p, n, s}, 32), buffers) ==
        "kernel 'k' requires blocks of (64, 1, 1) threads, not of (32, 1, 1)");
  Launch named = launch({p, n, s});
  named.kernel = "other";
  CHECK(launchError(text, named, buffers) == "there is no kernel 'other'; the module has 'k'");
  named.kernel = "k";
  named.grid = {0, 1, 1};
  CHECK(launchError(text, named, buffers) == "grid[0] is 0; 1 to 2147483647 are possible");
  named.grid = {1, 1, 1};
  named.dynamicSharedBytes = 1 << 20;
  CHECK(launchError(text, named, buffers) == "1048576 bytes of shared memory; a block has at most 232448");
}

TEST_CASE("a module lists its kernels") {
  const std::string text =
      header() +
      ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry first(.param .u64 .ptr .global .align 16 first_a, "
      ".param .align 8 .b8 first_b[24])\n.maxntid 128\n"
      "{ .shared .align 8 .b8 tile[96]; .reg .b32 %r<2>; st.shared.u32 [tile], 0; ret; }\n.entry second() { ret; }\n";
  const Module module = Module::parse(text).value();
  REQUIRE(module.entries().size() == 2);
  const Entry &first = module.entries()[0];
  CHECK(first.name == "first");
  REQUIRE(first.parameters.size() == 2);
  CHECK(first.parameters[0].bytes == 8);
  CHECK(first.parameters[1].bytes == 24);
  CHECK(first.parameters[1].offset == 8);
  CHECK(first.maximalThreads[0] == 128);
  CHECK(first.staticSharedBytes == 96);
  CHECK(first.usesDynamicShared);
  CHECK(module.find("second"));
  CHECK(!module.find("third"));
}

TEST_CASE("mutants differ in one place and depend on the seed alone") {
  const std::string text = readPtx("matmul.ptx");
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Mutant mutant = mutate(text, seed);
    CHECK(mutant.text != text);
    CHECK(mutant.text == mutate(text, seed).text);
    CHECK(std::count(mutant.text.begin(), mutant.text.end(), '\n') == std::count(text.begin(), text.end(), '\n'));
    different.insert(mutant.text);
  }
  CHECK(different.size() > 150);
}

TEST_CASE("most mutants of a reduction are noticed") {
  const std::string text = readPtx("reduce.ptx");
  unsigned noticed = 0, all = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Mutant mutant = mutate(text, seed);
    ++all;
    const Result<Module> module = Module::parse(mutant.text);
    if (!module) {
      ++noticed;
      continue;
    }
    std::vector<float> in(2000), out(2);
    for (std::size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<float>(i % 37);
    Options options;
    options.instructionBudget = 100000;
    const Result<Report> report = run(*module,
                                      {.kernel = "reduce",
                                       .grid = {2, 1, 1},
                                       .block = {256, 1, 1},
                                       .arguments = {Pointer{"in"}, Pointer{"out"}, int64_t{2000}}},
                                      {buffer("in", in, false), buffer("out", out, true, false)}, options);
    float expected[2] = {};
    for (std::size_t i = 0; i < in.size(); ++i)
      expected[i / 1024] += in[i];
    const bool same = report && report->clean() && out[0] == expected[0] && out[1] == expected[1];
    noticed += !same;
    if (same)
      UNSCOPED_INFO(mutant.description);
  }
  CHECK(noticed >= all * 8 / 10);
}

TEST_CASE("all texts of the tests are written to the folder YAGLOM_PTX_DUMP, to be assembled by ptxas", "[.]") {
  const char *folder = std::getenv("YAGLOM_PTX_DUMP");
  REQUIRE(folder);
  unsigned number = 0;
  for (const Example &example : allExamples())
    std::ofstream(fmt::format("{}/{}.ptx", folder, number++)) << textOf(example);
  for (const NamedText &text : allTexts())
    std::ofstream(fmt::format("{}/{}.ptx", folder, number++)) << text.text;
}

} // namespace yaglom::emulator::test
