// Loads, stores, state spaces, atomics and asynchronous copies.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <numeric>

namespace yaglom::emulator::test {
namespace {

constexpr const char *kTypes[] = {"b8",  "b16", "b32", "b64", "u8",  "u16", "u32",
                                  "u64", "s8",  "s16", "s32", "s64", "f32", "f64"};

unsigned bytesOfName(const std::string &type) { return static_cast<unsigned>(std::stoi(type.substr(1))) / 8; }

/// Element %tid.x of p0 to p1, through a register of 64 bits, extended as the type says.
std::string copyText(const std::string &load, const std::string &type) {
  const unsigned bytes = bytesOfName(type);
  const std::string reg = type == "f32" ? "%f0" : type == "f64" ? "%fd0" : "%rd0";
  return kernel(
      fmt::format("  mul.wide.u32 %rd1, %r49, {0};\n  add.u64 %rd2, %p0, %rd1;\n  {1}.global.{2} {3}, [%rd2];\n"
                  "  add.u64 %rd3, %p1, %rd1;\n  st.global.{2} [%rd3], {3};\n{4}",
                  bytes, load, type, reg,
                  reg == "%rd0"
                      ? "  mul.wide.u32 %rd4, %r49, 8;\n  add.u64 %rd5, %p2, %rd4;\n  st.global.b64 [%rd5], %rd0;\n"
                      : ""),
      3);
}

std::string vectorText(const std::string &vector, const std::string &registers, unsigned bytes,
                       const std::string &target) {
  return kernel(
      fmt::format("  mul.wide.u32 %rd1, %r49, {0};\n  add.u64 %rd2, %p0, %rd1;\n  ld.global.{1} {{{2}}}, [%rd2];\n"
                  "  add.u64 %rd3, %p1, %rd1;\n  st.global.{1} [%rd3], {{{2}}};\n",
                  bytes, vector, registers),
      2, "", target);
}

const char *kSpaces = R"(
  cvta.to.global.u64 %rd1, %p0;
  add.u64 %rd1, %rd1, %rd49;
  // shared through a generic address
  mov.u64 %rd2, tile;
  cvta.shared.u64 %rd3, %rd2;
  add.u64 %rd3, %rd3, %rd49;
  st.u32 [%rd3], %r49;
  isspacep.shared %q0, %rd3;
  selp.u32 %r1, 1, 0, %q0;
  isspacep.global %q1, %p0;
  selp.u32 %r2, 10, 0, %q1;
  // neighbour, by a 32-bit shared address
  bar.warp.sync 0xffffffff;
  xor.b32 %r3, %r49, 1;
  shl.b32 %r4, %r3, 2;
  mov.u32 %r5, tile;
  add.u32 %r5, %r5, %r4;
  ld.shared.u32 %r6, [%r5];
  // local
  mov.u64 %rd4, stack;
  st.local.u32 [%rd4+4], %r49;
  cvta.local.u64 %rd5, %rd4;
  ld.u32 %r7, [%rd5+4];
  isspacep.local %q2, %rd5;
  selp.u32 %r8, 100, 0, %q2;
  // r = neighbour + own * 1000 + 111
  mad.lo.u32 %r9, %r7, 1000, %r6;
  add.u32 %r9, %r9, %r1;
  add.u32 %r9, %r9, %r2;
  add.u32 %r9, %r9, %r8;
  prefetch.global.L2 [%rd1];
  prefetchu.L1 [%rd1];
  st.global.u32 [%rd1], %r9;
)";

const char *kVariables = R"(
.const .align 4 .u32 table[4] = {10, 20, 0x1E, 40};
.global .align 8 .u64 pointer = table+4;
.global .align 4 .f32 scale[2] = {0f40000000, 3.0};
)";
const char *kUseVariables = R"(
  and.b32 %r1, %r49, 3;
  mul.wide.u32 %rd1, %r1, 4;
  mov.u64 %rd2, table;
  add.u64 %rd2, %rd2, %rd1;
  ld.const.u32 %r2, [%rd2];
  ld.global.u64 %rd3, [pointer];
  ld.u32 %r3, [%rd3];
  ld.global.f32 %f1, [scale];
  ld.global.f32 %f2, [scale+4];
  mul.f32 %f3, %f1, %f2;
  cvt.rzi.u32.f32 %r4, %f3;
  mad.lo.u32 %r5, %r3, 1000, %r2;
  mad.lo.u32 %r5, %r4, 1000000, %r5;
  add.u64 %rd5, %p0, %rd49;
  st.global.u32 [%rd5], %r5;
)";

/// All lanes on one word of p0: what it starts with, what each lane gives (%r0 or %rd0 holds 1 + laneid), what is left.
struct AtomicCase {
  std::string form;
  std::string type;
  uint64_t before;
  std::string operand; ///< %V is the lane's value
  uint64_t after;
};

std::vector<AtomicCase> atomicCases() {
  std::vector<AtomicCase> made;
  for (const char *type : {"u32", "s32", "u64"})
    made.push_back({"add", type, 5, "%V", 5 + 528});
  for (const char *type : {"u32", "s32", "u64", "s64"}) {
    made.push_back({"min", type, 20, "%V", 1});
    made.push_back({"max", type, 20, "%V", 32});
  }
  for (const char *type : {"b32", "b64"}) {
    made.push_back({"and", type, 0xff, "%V", 0});
    made.push_back({"or", type, 0, "%V", 63});
    made.push_back({"xor", type, 0, "%V", 32});
    made.push_back({"exch", type, 7, "%V", 32}); // lanes take their turns
    made.push_back({"cas", type, 3, "%V, 100", 100});
  }
  made.push_back({"inc", "u32", 0, "9", 32 % 10});
  made.push_back({"dec", "u32", 0, "9", 10 - 32 % 10});
  made.push_back({"add", "f32", 0, "0f3F800000", std::bit_cast<uint32_t>(32.0f)});
  made.push_back({"add", "f64", 0, "0d3FF0000000000000", std::bit_cast<uint64_t>(32.0)});
  return made;
}

std::string atomicText(const AtomicCase &test, const std::string &space, const std::string &op) {
  const bool wide = test.type.ends_with("64");
  std::string operand = test.operand;
  if (const std::size_t at = operand.find("%V"); at != std::string::npos)
    operand.replace(at, 2, wide ? "%rd0" : "%r0");
  const std::string to = op == "red"          ? ""
                         : test.type == "f32" ? "%f1, "
                         : test.type == "f64" ? "%fd1, "
                         : wide               ? "%rd1, "
                                              : "%r1, ";
  const std::string size = wide ? "64" : "32", reg = wide ? "%rd5" : "%r5";
  const std::string body = fmt::format(
      "  add.u32 %r0, %r49, 1;\n  cvt.u64.u32 %rd0, %r0;\n{}  {}.{}.{}.{} {}[{}], {};\n{}",
      space == "shared"
          ? fmt::format("  ld.global.b{0} {1}, [%p0];\n  st.shared.b{0} [word], {1};\n  bar.warp.sync -1;\n", size, reg)
          : "",
      op, space, test.form, test.type, to, space == "shared" ? "word" : "%p0", operand,
      space == "shared"
          ? fmt::format("  bar.warp.sync -1;\n  ld.shared.b{0} {1}, [word];\n  st.global.b{0} [%p0], {1};\n", size, reg)
          : "");
  return kernel(body, 1, space == "shared" ? ".shared .align 8 .b8 word[8];" : "");
}

std::string halfAtomicText(const std::string &op, const std::string &type, const std::string &value, bool pair) {
  return kernel(fmt::format("  mov.b{} {}, {};\n  {}.global.add.noftz.{} {}[%p0], {};\n", pair ? 32 : 16,
                            pair ? "%r0" : "%h0", value, op, type,
                            op == "red" ? ""
                            : pair      ? "%r1, "
                                        : "%h1, ",
                            pair ? "%r0" : "%h0"),
                1, "", "sm_90");
}

const char *kCasHalf = "  mov.b16 %h0, 1;\n  mov.b16 %h1, 2;\n  atom.global.cas.b16 %h2, [%p0], %h0, %h1;\n";

/// 16 bytes a lane from p0 to p1 through shared memory.
const char *kAsyncCopy = R"(
  shl.b32 %r1, %r49, 4;
  cvt.u64.u32 %rd1, %r1;
  add.u64 %rd2, %p0, %rd1;
  mov.u32 %r2, tile;
  add.u32 %r2, %r2, %r1;
  @ISSUE@
  @WAIT@
  ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r2];
  add.u64 %rd3, %p1, %rd1;
  st.global.v4.u32 [%rd3], {%r3, %r4, %r5, %r6};
)";

std::string asyncText(const std::string &issue, const std::string &wait) {
  std::string body = kAsyncCopy;
  body.replace(body.find("@ISSUE@"), 7, issue);
  body.replace(body.find("@WAIT@"), 6, wait);
  return kernel(body, 2, ".shared .align 16 .b8 tile[1024];");
}

std::vector<uint32_t> runAsync(const std::string &issue, const std::string &wait, std::string *findings = nullptr) {
  std::vector<uint32_t> in(256), out(128, 77);
  std::iota(in.begin(), in.end(), 1000u);
  const Report report = execute(asyncText(issue, wait), {buffer("in", in, false), buffer("out", out)});
  if (findings)
    *findings = report.findingsText();
  else
    CHECK(report.findingsText() == "");
  return out;
}

} // namespace

std::vector<NamedText> memoryTexts() {
  std::vector<NamedText> made;
  for (const char *type : kTypes) {
    made.push_back({std::string("copy-") + type, copyText("ld", type)});
    made.push_back({std::string("copy-ldu-") + type, copyText("ldu", type)});
  }
  made.push_back({"v2", vectorText("v2.b64", "%rd10, %rd11", 16, "sm_90")});
  made.push_back({"v4", vectorText("v4.f32", "%f1, %f2, %f3, %f4", 16, "sm_90")});
  made.push_back({"v4-b8", vectorText("v4.b8", "%h1, %h2, %h3, %h4", 4, "sm_90")});
  made.push_back({"spaces", kernel(kSpaces, 1, ".shared .align 4 .b8 tile[128];\n  .local .align 8 .b8 stack[16];")});
  made.push_back({"variables", kernel(kUseVariables, 1, kVariables)});
  for (const AtomicCase &test : atomicCases())
    for (const char *space : {"global", "shared"}) {
      made.push_back({"atom", atomicText(test, space, "atom")});
      if (test.form != "exch" && test.form != "cas")
        made.push_back({"red", atomicText(test, space, "red")});
    }
  for (const char *op : {"atom", "red"}) {
    made.push_back({"atom-f16", halfAtomicText(op, "f16", "0x3c00", false)});
    made.push_back({"atom-f16x2", halfAtomicText(op, "f16x2", "0x40003c00", true)});
    made.push_back({"atom-bf16", halfAtomicText(op, "bf16", "0x3f80", false)});
    made.push_back({"atom-bf16x2", halfAtomicText(op, "bf16x2", "0x40003f80", true)});
  }
  made.push_back({"cas-b16", kernel(kCasHalf, 1)});
  made.push_back({"async", asyncText("cp.async.cg.shared.global [%r2], [%rd2], 16;\n  cp.async.commit_group;",
                                     "cp.async.wait_group 0;")});
  return made;
}

TEST_CASE("loads and stores of every type copy and extend") {
  for (const char *type : kTypes)
    for (const char *load : {"ld", "ldu"}) {
      const unsigned bytes = bytesOfName(type);
      std::vector<uint64_t> in(32), out(32), extended(32);
      for (unsigned i = 0; i < 32; ++i)
        in[i] = 0x8182838485868788ull * (i + 1);
      const Report report =
          execute(copyText(load, type), {buffer("in", in, false), buffer("out", out), buffer("extended", extended)});
      INFO(type);
      CHECK(report.findingsText() == "");
      CHECK(std::memcmp(in.data(), out.data(), 32 * bytes) == 0);
      for (unsigned i = 0; i < 32 && *type != 'f'; ++i) {
        uint64_t expected = 0;
        std::memcpy(&expected, reinterpret_cast<const char *>(in.data()) + i * bytes, bytes);
        if (*type == 's' && bytes < 8)
          expected = static_cast<uint64_t>(static_cast<int64_t>(expected << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        CHECK(extended[i] == expected);
      }
    }
}

TEST_CASE("vectors of 2, 4 and 8 elements are one access") {
  for (const auto &[vector, registers, bytes, target] :
       std::initializer_list<std::tuple<const char *, const char *, unsigned, const char *>>{
           {"v2.b64", "%rd10, %rd11", 16, "sm_90"},
           {"v4.f32", "%f1, %f2, %f3, %f4", 16, "sm_90"},
           {"v4.b8", "%h1, %h2, %h3, %h4", 4, "sm_90"},
           {"v2.u16", "%h1, %h2", 4, "sm_90"},
           {"v8.b32", "%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8", 32, "sm_100"}}) {
    std::vector<uint32_t> in(256), out(256);
    std::iota(in.begin(), in.end(), 0x01020304u);
    const Report report = execute(vectorText(vector, registers, bytes, target), {buffer("in", in), buffer("out", out)});
    CHECK(report.findingsText() == "");
    CHECK(std::memcmp(in.data(), out.data(), 32 * bytes) == 0);
    CHECK(report.counters.sum("ld.global").sectors == bytes);
  }
}

TEST_CASE("state spaces are reached by their own and by generic addresses") {
  std::vector<uint32_t> out(32);
  const Report report = execute(kernel(kSpaces, 1, ".shared .align 4 .b8 tile[128];\n  .local .align 8 .b8 stack[16];"),
                                {buffer("out", out)});
  CHECK(report.findingsText() == "");
  for (unsigned i = 0; i < 32; ++i)
    CHECK(out[i] == (i ^ 1) + 1000 * i + 111);
}

TEST_CASE("variables of the module hold their initial values") {
  std::vector<uint32_t> out(32);
  const Report report = execute(kernel(kUseVariables, 1, kVariables), {buffer("out", out)});
  CHECK(report.findingsText() == "");
  for (unsigned i = 0; i < 32; ++i)
    CHECK(out[i] == (i % 4 == 2 ? 30 : 10 * (i % 4 + 1)) + 20000 + 6000000);
}

TEST_CASE("atomics change memory lane by lane and return what was there") {
  for (const AtomicCase &test : atomicCases())
    for (const char *space : {"global", "shared"})
      for (const char *op : {"atom", "red"}) {
        if (std::string(op) == "red" && (test.form == "exch" || test.form == "cas"))
          continue;
        std::vector<uint64_t> word = {test.before};
        const std::string text = atomicText(test, space, op);
        INFO(text);
        const Report report = execute(text, {buffer("word", word)});
        CHECK(report.findingsText() == "");
        CHECK(word[0] == test.after);
      }
  for (const auto &[type, value, pair, after] :
       std::initializer_list<std::tuple<const char *, const char *, bool, uint32_t>>{
           {"f16", "0x3c00", false, 0x5000},
           {"f16x2", "0x40003c00", true, 0x54005000},
           {"bf16", "0x3f80", false, 0x4200},
           {"bf16x2", "0x40003f80", true, 0x42804200}}) {
    std::vector<uint32_t> word = {0};
    execute(halfAtomicText("atom", type, value, pair), {buffer("word", word)});
    CHECK(word[0] == after);
  }
  std::vector<uint16_t> half = {1};
  execute(kernel(kCasHalf, 1), {buffer("half", half)});
  CHECK(half[0] == 2);
}

TEST_CASE("an atomic on several blocks counts each of them") {
  std::vector<uint32_t> count = {0};
  Options options;
  options.threads = 3;
  const Report report = execute(kernel("  red.global.add.u32 [%p0], 1;\n", 1), {buffer("count", count)}, {50, 1, 1},
                                {64, 1, 1}, 0, options);
  CHECK(report.findingsText() == "");
  CHECK(count[0] == 3200);
}

TEST_CASE("cp.async lands where it is waited for") {
  std::vector<uint32_t> expected(128);
  std::iota(expected.begin(), expected.end(), 1000u);
  const std::string issue = "cp.async.cg.shared.global [%r2], [%rd2], 16;";
  CHECK(runAsync(issue + "\n  cp.async.commit_group;", "cp.async.wait_group 0;") == expected);
  CHECK(runAsync(issue, "cp.async.wait_all;") == expected);
  CHECK(runAsync(
            "cp.async.ca.shared.global.L2::128B [%r2], [%rd2], 8;\n  cp.async.ca.shared.global [%r2+8], [%rd2+8], 4;\n"
            "  cp.async.ca.shared.global [%r2+12], [%rd2+12], 4;",
            "cp.async.wait_all;") == expected);
}

TEST_CASE("a missing or too weak wait for cp.async is seen") {
  const std::string issue = "cp.async.cg.shared.global [%r2], [%rd2], 16;\n  cp.async.commit_group;";
  std::string findings;
  runAsync(issue, "", &findings);
  CHECK(findings.find("uninitialised: st.global.v4.u32") != std::string::npos);
  runAsync(issue, "cp.async.wait_group 1;", &findings);
  CHECK(findings.find("uninitialised: st.global.v4.u32") != std::string::npos);
  runAsync("cp.async.cg.shared.global [%r2], [%rd2], 16;", "cp.async.wait_group 0;", &findings); // no group holds it
  CHECK(findings.find("uninitialised: st.global.v4.u32") != std::string::npos);
  // an empty later group: waiting for all but one is enough
  runAsync(issue + "\n  cp.async.commit_group;", "cp.async.wait_group 1;", &findings);
  CHECK(findings == "");
}

TEST_CASE("cp.async fills what its source size or predicate leaves out with zero") {
  const std::vector<uint32_t> partial =
      runAsync("cp.async.cg.shared.global [%r2], [%rd2], 16, 6;", "cp.async.wait_all;");
  const std::vector<uint32_t> none = runAsync("cp.async.cg.shared.global [%r2], [%rd2], 16, 0;", "cp.async.wait_all;");
  const std::vector<uint32_t> ignored =
      runAsync("setp.ge.u32 %q1, %r49, 16;\n  cp.async.cg.shared.global [%r2], [%rd2], 16, %q1;", "cp.async.wait_all;");
  for (unsigned i = 0; i < 128; ++i) {
    CHECK(partial[i] == (i % 4 == 0 ? 1000 + i : i % 4 == 1 ? (1000 + i) & 0xffff : 0));
    CHECK(none[i] == 0);
    CHECK(ignored[i] == (i < 64 ? 1000 + i : 0));
  }
}

} // namespace yaglom::emulator::test
