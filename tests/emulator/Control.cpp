// Branches, loops, barriers, exits and fences.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <numeric>

namespace yaglom::emulator::test {
namespace {

/// Collatz steps of tid + 1: every lane leaves the loop at another time, then all meet again.
const char *kCollatz = R"(
  add.u32 %r1, %r49, 1;
  mov.u32 %r2, 0;
$again:
  setp.eq.u32 %q1, %r1, 1;
  @%q1 bra $done;
  and.b32 %r3, %r1, 1;
  setp.ne.u32 %q2, %r3, 0;
  @!%q2 bra $even;
  mad.lo.u32 %r1, %r1, 3, 1;
  bra.uni $next;
$even:
  shr.u32 %r1, %r1, 1;
$next:
  add.u32 %r2, %r2, 1;
  bra $again;
$done:
  activemask.b32 %r4;
  add.u64 %rd1, %p0, %rd49;
  st.global.u32 [%rd1], %r2;
  add.u64 %rd2, %p1, %rd49;
  st.global.u32 [%rd2], %r4;
)";

const char *kSwitch = R"(
  and.b32 %r1, %r49, 3;
$targets: .branchtargets $zero, $one, $two, $one;
  brx.idx %r1, $targets;
$zero:
  mov.u32 %r2, 100;
  bra $end;
$one:
  mov.u32 %r2, 101;
  bra $end;
$two:
  mov.u32 %r2, 102;
$end:
  add.u64 %rd1, %p0, %rd49;
  st.global.u32 [%rd1], %r2;
)";

/// Sums 256 numbers by halves, one barrier a step; odd instructions on the way have no effect.
const char *kReduce = R"(
  mov.u64 %rd1, sums;
  add.u64 %rd1, %rd1, %rd49;
  st.shared.u32 [%rd1], %r49;
  mov.u32 %r1, 128;
$step:
  barrier.sync.aligned 0;
  setp.lt.u32 %q1, %r49, %r1;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  @%q1 ld.shared.u32 %r2, [%rd3];
  @%q1 ld.shared.u32 %r3, [%rd1];
  @%q1 add.u32 %r3, %r3, %r2;
  @%q1 st.shared.u32 [%rd1], %r3;
  shr.u32 %r1, %r1, 1;
  setp.ne.u32 %q2, %r1, 0;
  @%q2 bra $step;
  membar.cta;
  fence.acq_rel.gpu;
  fence.sc.sys;
  nanosleep.u32 20;
  griddepcontrol.wait;
  pmevent 3;
  setp.ne.u32 %q3, %r49, 0;
  @%q3 exit;
  st.global.u32 [%p0], %r3;
)";

/// Warp 0 produces, warp 1 consumes, by named barriers of 64 threads; warp 2 takes no part.
const char *kPipeline = R"(
  shr.u32 %r1, %r49, 5;
  and.b32 %r2, %r49, 31;
  mul.wide.u32 %rd1, %r2, 4;
  mov.u64 %rd2, tile;
  add.u64 %rd2, %rd2, %rd1;
  setp.eq.u32 %q1, %r1, 1;
  @%q1 bra $consume;
  setp.eq.u32 %q2, %r1, 2;
  @%q2 bra $end;
  st.shared.u32 [%rd2], %r49;
  bar.arrive 1, 64;
  bra $end;
$consume:
  bar.sync 1, 64;
  xor.b32 %r5, %r2, 31;
  mul.wide.u32 %rd4, %r5, 4;
  mov.u64 %rd5, tile;
  add.u64 %rd5, %rd5, %rd4;
  ld.shared.u32 %r3, [%rd5];
  add.u64 %rd3, %p0, %rd1;
  st.global.u32 [%rd3], %r3;
$end:
)";

const char *kSubwarp = R"(
  setp.lt.u32 %q1, %r49, 16;
  @!%q1 bra $upper;
  shfl.sync.bfly.b32 %r1, %r49, 1, 31, 0x0000ffff;
  bra $end;
$upper:
  shfl.sync.bfly.b32 %r1, %r49, 2, 31, 0xffff0000;
$end:
  shfl.sync.idx.b32 %r2, %r1, 5, 31, -1;
  add.u32 %r1, %r1, %r2;
  add.u64 %rd1, %p0, %rd49;
  st.global.u32 [%rd1], %r1;
)";

} // namespace

std::vector<NamedText> controlTexts() {
  return {{"collatz", kernel(kCollatz, 2)},
          {"switch", kernel(kSwitch, 1)},
          {"reduce", kernel(kReduce, 1, ".shared .align 4 .b8 sums[1024];")},
          {"pipeline", kernel(kPipeline, 1, ".shared .align 4 .b8 tile[128];")},
          {"subwarp", kernel(kSubwarp, 1)},
          {"trap", kernel("  trap;\n", 0)},
          {"brkpt", kernel("  brkpt;\n", 0)}};
}

TEST_CASE("lanes that leave a loop at different times meet behind it") {
  std::vector<uint32_t> steps(64), masks(64);
  CHECK(execute(kernel(kCollatz, 2), {buffer("steps", steps), buffer("masks", masks)}, {1, 1, 1}, {64, 1, 1})
            .findingsText() == "");
  for (unsigned i = 0; i < 64; ++i) {
    uint32_t n = i + 1, count = 0;
    for (; n != 1; ++count)
      n = n % 2 ? 3 * n + 1 : n / 2;
    CHECK(steps[i] == count);
    CHECK(masks[i] == 0xffffffff);
  }
}

TEST_CASE("brx.idx branches by index, lane by lane") {
  std::vector<uint32_t> out(32);
  CHECK(execute(kernel(kSwitch, 1), {buffer("out", out)}).findingsText() == "");
  for (unsigned i = 0; i < 32; ++i)
    CHECK(out[i] == (i % 4 == 0 ? 100u : i % 4 == 2 ? 102u : 101u));
}

TEST_CASE("a reduction with barriers sums the block, in every order of its warps") {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    std::vector<uint32_t> out(1);
    Options options;
    options.seed = seed;
    const Report report = execute(kernel(kReduce, 1, ".shared .align 4 .b8 sums[1024];"), {buffer("out", out)},
                                  {1, 1, 1}, {256, 1, 1}, 0, options);
    CHECK(report.findingsText() == "");
    CHECK(out[0] == 255 * 256 / 2);
    CHECK(report.counters.barriers == 8);
  }
}

TEST_CASE("bar.arrive and bar.sync with a thread count hand data from warp to warp") {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    std::vector<uint32_t> out(32);
    Options options;
    options.seed = seed;
    CHECK(execute(kernel(kPipeline, 1, ".shared .align 4 .b8 tile[128];"), {buffer("out", out)}, {1, 1, 1}, {96, 1, 1},
                  0, options)
              .findingsText() == "");
    for (unsigned i = 0; i < 32; ++i)
      CHECK(out[i] == 31 - i);
  }
}

TEST_CASE("exited threads do not hold up a barrier of all threads") {
  std::vector<uint32_t> out(64);
  const Report report = execute(kernel("  setp.ge.u32 %q1, %r49, 32;\n  @%q1 exit;\n  bar.sync 0;\n  add.u64 %rd1, "
                                       "%p0, %rd49;\n  st.global.u32 [%rd1], 1;\n",
                                       1),
                                {buffer("out", out)}, {1, 1, 1}, {64, 1, 1});
  CHECK(report.findingsText() == "");
  CHECK(std::accumulate(out.begin(), out.end(), 0u) == 32);
}

TEST_CASE("collectives of half a warp work in divergent code") {
  std::vector<uint32_t> out(32);
  CHECK(execute(kernel(kSubwarp, 1), {buffer("out", out)}).findingsText() == "");
  for (unsigned i = 0; i < 32; ++i)
    CHECK(out[i] == (i ^ (i < 16 ? 1 : 2)) + 4);
}

TEST_CASE("blocks and threads of three dimensions have their numbers") {
  const std::string body = R"(
  mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r4, %r1, %r2, %r3;
  mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r4, %r4, %r1, %r2;
  mov.u32 %r5, %tid.z; mov.u32 %r6, %ntid.y; mov.u32 %r7, %tid.y; mad.lo.u32 %r8, %r5, %r6, %r7;
  mov.u32 %r5, %ntid.x; mad.lo.u32 %r8, %r8, %r5, %r49;
  mad.lo.u32 %r9, %r4, 30, %r8; mul.wide.u32 %rd1, %r9, 4; add.u64 %rd1, %p0, %rd1; st.global.u32 [%rd1], %r9;)";
  std::vector<uint32_t> out(24 * 30, 12345);
  const Report report = execute(kernel(body, 1), {buffer("out", out)}, {2, 3, 4}, {5, 2, 3});
  CHECK(report.findingsText() == "");
  for (unsigned i = 0; i < out.size(); ++i)
    CHECK(out[i] == i);
}

} // namespace yaglom::emulator::test
