// Each kind of finding: a kernel that has the mistake, and its corrected twin that has none.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

namespace yaglom::emulator::test {
namespace {

struct Setup {
  unsigned threads = 32;
  unsigned blocks = 1;
  std::size_t bytes = 4096; ///< of the buffer 'data'
  bool writable = true;
  bool initialised = true;
  std::string shared = ".shared .align 16 .b8 tile[1024];";
  uint64_t budget = 100000;
};

Report runOnData(const std::string &body, const Setup &setup) {
  std::vector<uint32_t> data(setup.bytes / 4);
  Options options;
  options.instructionBudget = setup.budget;
  return execute(kernel(body, 1, setup.shared), {buffer("data", data, setup.writable, setup.initialised)},
                 {setup.blocks, 1, 1}, {setup.threads, 1, 1}, 0, options);
}

/// All findings of `body` are of `kind`, one at the instruction that contains `at`; `corrected` has none.
Finding checkPair(FindingKind kind, const std::string &body, const std::string &at, const std::string &corrected,
                  const Setup &setup = {}) {
  const Report clean = runOnData(corrected, setup);
  CHECK(clean.findingsText() == "");
  CHECK(clean.clean());
  const Report report = runOnData(body, setup);
  INFO(report.findingsText());
  REQUIRE(!report.findings.empty());
  const Finding *found = nullptr; // a race may be seen from both sides
  for (const Finding &finding : report.findings) {
    CHECK(toText(finding.kind) == toText(kind));
    if (!found && finding.instruction.find(at) != std::string::npos)
      found = &finding;
  }
  REQUIRE(found);
  return *found;
}

const std::string kOwn = "  mul.wide.u32 %rd1, %r49, 4;\n  add.u64 %rd1, %p0, %rd1;\n";
const std::string kTile =
    "  mov.u32 %r1, tile;\n  shl.b32 %r2, %r49, 2;\n  add.u32 %r3, %r1, %r2;\n  xor.b32 %r4, %r49, 32;\n"
    "  shl.b32 %r4, %r4, 2;\n  add.u32 %r4, %r1, %r4;\n  xor.b32 %r5, %r49, 1;\n  shl.b32 %r5, %r5, 2;\n  add.u32 %r5, "
    "%r1, %r5;\n";

} // namespace

TEST_CASE("an access outside its buffer is found, with the buffer and the byte") {
  Setup setup;
  setup.bytes = 128;
  const Finding after = checkPair(FindingKind::OutOfBounds, kOwn + "  st.global.u32 [%rd1+4], %r49;",
                                  "st.global.u32 [%rd1+4]", kOwn + "  st.global.u32 [%rd1], %r49;", setup);
  CHECK(after.buffer == "data");
  CHECK(after.offset == 128);
  CHECK(after.thread[0] == 31);
  CHECK(after.text().find("4 bytes at byte 128 of 'data', which has 128") != std::string::npos);
  CHECK(after.count == 1);
  const Finding before = checkPair(FindingKind::OutOfBounds, kOwn + "  ld.global.u32 %r1, [%rd1+-4];", "ld.global.u32",
                                   kOwn + "  ld.global.u32 %r1, [%rd1];", setup);
  CHECK(before.offset == -4);
  checkPair(FindingKind::OutOfBounds, "  ld.global.u64 %rd2, [%p0+128];", "ld.global.u64",
            "  ld.global.u64 %rd2, [%p0+120];", setup);
}

TEST_CASE("an access outside shared memory is found") {
  const Finding finding = checkPair(FindingKind::OutOfBounds, "  st.shared.u32 [tile+1024], %r49;", "st.shared",
                                    "  setp.eq.u32 %q1, %r49, 0;\n  @%q1 st.shared.u32 [tile+1020], 1;");
  CHECK(finding.buffer == "shared");
  CHECK(finding.count == 32);
}

TEST_CASE("a misaligned address is found") {
  checkPair(FindingKind::Misaligned, "  ld.global.v2.u32 {%r1, %r2}, [%p0+4];", "ld.global.v2",
            "  ld.global.v2.u32 {%r1, %r2}, [%p0+8];");
  checkPair(FindingKind::Misaligned, "  ld.global.u16 %h1, [%p0+1];", "ld.global.u16", "  ld.global.u8 %h1, [%p0+1];");
  checkPair(
      FindingKind::Misaligned, "  cp.async.cg.shared.global [tile+8], [%p0], 16;\n  cp.async.wait_all;", "cp.async",
      "  setp.eq.u32 %q1, %r49, 0;\n  @%q1 cp.async.cg.shared.global [tile+16], [%p0], 16;\n  cp.async.wait_all;");
}

TEST_CASE("a write to a read-only buffer is found") {
  Setup setup;
  setup.writable = false;
  const Finding finding = checkPair(FindingKind::ReadOnly, kOwn + "  st.global.u32 [%rd1], 1;", "st.global",
                                    kOwn + "  ld.global.u32 %r1, [%rd1];", setup);
  CHECK(finding.buffer == "data");
}

TEST_CASE("a value that nothing wrote is found where it reaches memory, an address or a branch") {
  checkPair(FindingKind::Uninitialised, kOwn + "  add.u32 %r2, %r1, 1;\n  st.global.u32 [%rd1], %r2;", "st.global",
            kOwn + "  mov.u32 %r1, 0;\n  add.u32 %r2, %r1, 1;\n  st.global.u32 [%rd1], %r2;");
  checkPair(FindingKind::Uninitialised, "  ld.global.u32 %r1, [%rd7];", "ld.global",
            "  mov.u64 %rd7, %p0;\n  ld.global.u32 %r1, [%rd7];");
  checkPair(FindingKind::Uninitialised, "  @%q5 bra $x;\n$x:", "bra",
            "  setp.eq.u32 %q5, %r49, 1;\n  @%q5 bra $x;\n$x:");
  checkPair(FindingKind::Uninitialised, kOwn + "  ld.shared.u32 %r1, [tile];\n  st.global.u32 [%rd1], %r1;",
            "st.global",
            kOwn + "  st.shared.u32 [tile], 5;\n  bar.warp.sync -1;\n  ld.shared.u32 %r1, [tile];\n  st.global.u32 "
                   "[%rd1], %r1;");
  // half of the word is written: the other half taints it
  checkPair(
      FindingKind::Uninitialised,
      kOwn +
          "  st.shared.u16 [tile], 5;\n  bar.warp.sync -1;\n  ld.shared.u32 %r1, [tile];\n  st.global.u32 [%rd1], %r1;",
      "st.global",
      kOwn + "  st.shared.u16 [tile], 5;\n  bar.warp.sync -1;\n  ld.shared.u16 %r1, [tile];\n  st.global.u32 [%rd1], "
             "%r1;");
  // A buffer that holds nothing yet may take such a value, and gives it back as what it is.
  Setup setup;
  setup.initialised = false;
  const std::string branch = "  setp.eq.u32 %q5, %r1, 1;\n  @%q5 bra $x;\n$x:";
  checkPair(FindingKind::Uninitialised, kOwn + "  ld.global.u32 %r1, [%rd1];\n" + branch, "bra",
            kOwn + "  st.global.u32 [%rd1], 1;\n  ld.global.u32 %r1, [%rd1];\n" + branch, setup);
  checkPair(FindingKind::Uninitialised, kOwn + "  st.global.u32 [%rd1], %r7;\n  ld.global.u32 %r1, [%rd1];\n" + branch,
            "bra",
            kOwn + "  st.global.u32 [%rd1], %r7;\n  st.global.u32 [%rd1], 1;\n  ld.global.u32 %r1, [%rd1];\n" + branch,
            setup);
}

TEST_CASE("only what is chosen must be initialised") {
  CHECK(
      runOnData(kOwn + "  setp.ge.u32 %q1, %r49, 0;\n  selp.u32 %r2, %r49, %r1, %q1;\n  st.global.u32 [%rd1], %r2;", {})
          .clean());
}

TEST_CASE("a shared race between warps is found") {
  Setup setup;
  setup.threads = 64;
  const Finding finding =
      checkPair(FindingKind::SharedRace, kTile + "  st.shared.u32 [%r3], 1;\n  ld.shared.u32 %r6, [%r4];", "ld.shared",
                kTile + "  st.shared.u32 [%r3], 1;\n  bar.sync 0;\n  ld.shared.u32 %r6, [%r4];", setup);
  CHECK(finding.detail.find("reads byte 0 of 'shared', which thread 0 wrote at line") != std::string::npos);
  // reading before the next writing
  checkPair(FindingKind::SharedRace,
            kTile + "  st.shared.u32 [%r3], 1;\n  bar.sync 0;\n  ld.shared.u32 %r6, [%r4];\n  st.shared.u32 [%r3], 2;",
            "st.shared.u32 [%r3], 2",
            kTile + "  st.shared.u32 [%r3], 1;\n  bar.sync 0;\n  ld.shared.u32 %r6, [%r4];\n  bar.sync 0;\n  "
                    "st.shared.u32 [%r3], 2;",
            setup);
}

TEST_CASE("a shared race between lanes of a warp is found") {
  checkPair(FindingKind::SharedRace, kTile + "  st.shared.u32 [%r3], 1;\n  ld.shared.u32 %r6, [%r5];", "ld.shared",
            kTile + "  st.shared.u32 [%r3], 1;\n  bar.warp.sync 0xffffffff;\n  ld.shared.u32 %r6, [%r5];");
  checkPair(FindingKind::SharedRace, "  st.shared.u32 [tile], %r49;", "st.shared", "  st.shared.u32 [tile], 7;");
  // bytes beside one another are no race, the same byte is
  const std::string bytes = "  mov.u32 %r1, tile;\n  add.u32 %r3, %r1, %r49;\n  xor.b32 %r4, %r49, 1;\n  add.u32 %r4, "
                            "%r1, %r4;\n  st.shared.u8 [%r3], 1;\n";
  checkPair(FindingKind::SharedRace, bytes + "  ld.shared.u8 %h1, [%r4];", "ld.shared",
            bytes + "  ld.shared.u8 %h1, [%r3];");
  CHECK(runOnData("  atom.shared.add.u32 %r1, [tile], 0;\n  red.shared.add.u32 [tile+4], 0;", {}).clean() == true);
  checkPair(FindingKind::SharedRace, "  st.shared.u32 [tile], 0;\n  red.shared.add.u32 [tile], 1;", "red.shared",
            "  st.shared.u32 [tile], 0;\n  bar.warp.sync -1;\n  red.shared.add.u32 [tile], 1;");
}

TEST_CASE("an asynchronous copy is a write of its thread at the wait") {
  const std::string issue = "  shl.b32 %r1, %r49, 4;\n  mov.u32 %r2, tile;\n  add.u32 %r3, %r2, %r1;\n  cvt.u64.u32 "
                            "%rd2, %r1;\n  add.u64 %rd2, %p0, %rd2;\n"
                            "  xor.b32 %r4, %r1, 512;\n  add.u32 %r4, %r2, %r4;\n  cp.async.cg.shared.global [%r3], "
                            "[%rd2], 16;\n  cp.async.commit_group;\n";
  Setup setup;
  setup.threads = 64;
  checkPair(FindingKind::SharedRace, issue + "  cp.async.wait_group 0;\n  ld.shared.u32 %r5, [%r4];", "ld.shared",
            issue + "  cp.async.wait_group 0;\n  bar.sync 0;\n  ld.shared.u32 %r5, [%r4];", setup);
}

TEST_CASE("a race in global memory is found, in a block and between blocks") {
  Setup setup;
  setup.threads = 64;
  const std::string addresses = kOwn + "  xor.b32 %r4, %r49, 32;\n  mul.wide.u32 %rd2, %r4, 4;\n  add.u64 %rd2, %p0, "
                                       "%rd2;\n  st.global.u32 [%rd1], 1;\n";
  checkPair(FindingKind::GlobalRace, addresses + "  ld.global.u32 %r6, [%rd2];", "ld.global",
            addresses + "  bar.sync 0;\n  ld.global.u32 %r6, [%rd2];", setup);
  setup.blocks = 2;
  const std::string own = "  mov.u32 %r1, %ctaid.x;\n  shl.b32 %r2, %r1, 6;\n  add.u32 %r2, %r2, %r49;\n  mul.wide.u32 "
                          "%rd1, %r2, 4;\n  add.u64 %rd1, %p0, %rd1;\n  st.global.u32 [%rd1], 1;\n";
  const Finding written =
      checkPair(FindingKind::GlobalRace, kOwn + "  mov.u32 %r1, %ctaid.x;\n  st.global.u32 [%rd1], %r1;", "st.global",
                own, setup);
  CHECK(written.block[0] == 1);
  CHECK(written.detail.find("writes byte 0 of 'data', which block (0, 0, 0) wrote at line") != std::string::npos);
  CHECK(written.count == 64);
  checkPair(FindingKind::GlobalRace, own + "  ld.global.u32 %r3, [%p0+252];\n  bar.sync 0;", "",
            own + "  bar.sync 0;\n  ld.global.u32 %r3, [%rd1];", setup);
}

TEST_CASE("a collective that not all lanes reach is found") {
  const std::string diverge = "  setp.lt.u32 %q1, %r49, 16;\n  @!%q1 bra $wait;\n";
  checkPair(FindingKind::DivergentCollective,
            diverge + "  shfl.sync.idx.b32 %r1, %r49, 0, 31, -1;\n$wait:\n  barrier.sync 0;", "shfl.sync",
            diverge + "  shfl.sync.idx.b32 %r1, %r49, 0, 31, 0xffff;\n$wait:\n  barrier.sync 0;");
  checkPair(FindingKind::DivergentCollective, diverge + "  bar.warp.sync -1;\n$wait:\n  barrier.sync 0;",
            "bar.warp.sync", diverge + "$wait:\n  bar.warp.sync -1;\n  barrier.sync 0;");
  checkPair(FindingKind::DivergentCollective,
            "  mov.u32 %r3, tile;\n" + diverge + "  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r3];\n$wait:\n",
            "ldmatrix",
            "  mov.u32 %r3, tile;\n" + diverge + "$wait:\n  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r3];\n");
  checkPair(FindingKind::DivergentCollective,
            "  mov.b32 %r1, 0;\n  mov.b32 %r2, 0;\n  mov.f32 %f1, 0.0;\n" + diverge +
                "  mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1,%f1,%f1,%f1}, {%r1,%r1}, {%r2}, "
                "{%f1,%f1,%f1,%f1};\n$wait:\n",
            "mma",
            "  mov.b32 %r1, 0;\n  mov.b32 %r2, 0;\n  mov.f32 %f1, 0.0;\n" + diverge +
                "$wait:\n"
                "  mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1,%f1,%f1,%f1}, {%r1,%r1}, {%r2}, "
                "{%f1,%f1,%f1,%f1};\n");
  checkPair(FindingKind::DivergentCollective, "  setp.lt.u32 %q1, %r49, 16;\n  @%q1 bar.sync 0;\n  @!%q1 bar.sync 0;",
            "bar.sync", "  bar.sync 0;");
}

TEST_CASE("a barrier that not all threads reach is found") {
  Setup setup;
  setup.threads = 64;
  const std::string half = "  setp.lt.u32 %q1, %r49, 32;\n";
  const Finding finding = checkPair(FindingKind::BarrierMismatch, half + "  @%q1 bar.sync 1, 64;", "bar.sync",
                                    half + "  @%q1 bar.sync 1, 32;", setup);
  CHECK(finding.detail == "32 threads wait at barrier 1 for 64; nobody else comes");
  checkPair(FindingKind::BarrierMismatch, half + "  @%q1 bar.sync 1, 32;\n  @!%q1 bar.sync 1, 40;", "bar.sync 1, 40",
            half + "  @%q1 bar.sync 1, 32;\n  @!%q1 bar.sync 2, 32;", setup);
  // two barriers, each waited for by one warp
  const Report report = runOnData(half + "  @%q1 bar.sync 1;\n  @!%q1 bar.sync 2;", setup);
  CHECK(report.findings.size() == 2);
}

TEST_CASE("an endless loop and a trap are found") {
  const Finding budget = checkPair(FindingKind::Budget, "$x:\n  bra $x;", "bra", "  bra $x;\n$x:");
  CHECK(budget.detail.find("100000 warp instructions") != std::string::npos);
  checkPair(FindingKind::Trap, "  setp.eq.u32 %q1, %r49, 3;\n  @%q1 trap;", "trap",
            "  setp.eq.u32 %q1, %r49, 300;\n  @%q1 trap;");
}

TEST_CASE("a warp that waits in a loop for another has its turn again") {
  Setup setup;
  setup.threads = 64;
  setup.budget = 10'000'000;
  const std::string body = "  setp.lt.u32 %q1, %r49, 32;\n  @!%q1 bra $set;\n$spin:\n  atom.shared.or.b32 %r1, [tile], "
                           "0;\n  setp.eq.u32 %q2, %r1, 7;\n  @!%q2 bra $spin;\n  bra $end;\n"
                           "$set:\n  atom.shared.exch.b32 %r2, [tile], 7;\n$end:\n";
  const Report report = runOnData(body, setup);
  CHECK(report.findings.size() <= 1); // the first look is at memory that nothing wrote
}

TEST_CASE("findings of a line are merged and limited") {
  std::vector<uint32_t> data(8);
  Options options;
  options.maximalFindings = 1;
  const Report report = execute(kernel("  ld.global.u32 %r1, [%p0+64];\n  ld.global.u32 %r1, [%p0+68];", 1),
                                {buffer("data", data)}, {4, 1, 1}, {32, 1, 1}, 0, options);
  CHECK(report.findings.size() == 1);
  CHECK(report.findings[0].count == 128);
  CHECK(report.findingCount == 256);
}

} // namespace yaglom::emulator::test
