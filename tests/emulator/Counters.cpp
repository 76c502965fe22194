// Counters on known patterns: bank conflicts, sectors, bytes; and that nothing depends on the number of threads.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <bit>
#include <numeric>
#include <random>

namespace yaglom::emulator::test {
namespace {

InstructionCounters sharedLoad(const std::string &type, const std::string &registers, unsigned stride,
                               unsigned lanes = 32) {
  const std::string body = fmt::format("  mul.lo.u32 %r1, %r49, {};\n  mov.u32 %r2, tile;\n  add.u32 %r1, %r1, %r2;\n  "
                                       "setp.lt.u32 %q1, %r49, {};\n  @%q1 ld.shared.{} {}, [%r1];\n",
                                       stride, lanes, type, registers);
  return execute(kernel(body, 0, ".shared .align 16 .b8 tile[16384];"), {}).counters.sum("ld.shared");
}

InstructionCounters globalLoad(const std::string &type, const std::string &registers, unsigned stride,
                               unsigned offset = 0) {
  std::vector<uint32_t> data(8192);
  const std::string body =
      fmt::format("  mul.wide.u32 %rd1, %r49, {};\n  add.u64 %rd1, %p0, %rd1;\n  ld.global.{} {}, [%rd1+{}];\n", stride,
                  type, registers, offset);
  return execute(kernel(body, 1), {buffer("data", data)}).counters.sum("ld.global");
}

InstructionCounters matrixLoad(bool swizzled) {
  // rows of 128 bytes, matrices of one chunk of 16 bytes each
  const std::string body =
      fmt::format("  and.b32 %r1, %r49, 7;\n  shr.u32 %r2, %r49, 3;\n  {}\n  shl.b32 %r2, %r2, 4;\n  shl.b32 %r3, %r1, "
                  "7;\n  add.u32 %r3, %r3, %r2;\n  mov.u32 %r4, tile;\n  add.u32 %r3, %r3, %r4;\n"
                  "  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r5, %r6, %r7, %r8}}, [%r3];\n",
                  swizzled ? "xor.b32 %r2, %r2, %r1;" : "");
  return execute(kernel(body, 0, ".shared .align 1024 .b8 tile[1024];"), {}).counters.sum("ldmatrix");
}

struct MatmulRun {
  Report report;
  std::vector<float> C;
};

MatmulRun runMatmul(int threads, uint64_t seed, bool checks = true) {
  constexpr int kM = 128, kN = 128, kK = 96;
  std::vector<uint16_t> A(kM * kK), B(kK * kN);
  std::mt19937 random(9);
  for (auto *values : {&A, &B})
    for (uint16_t &value : *values)
      value =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(random() % 9) - 4)) >> 16);
  MatmulRun made;
  made.C.assign(kM * kN, -1);
  const Module module = Module::parse(readPtx("matmul.ptx")).value();
  Options options;
  options.threads = threads;
  options.seed = seed;
  options.checks = checks;
  made.report = run(module,
                    {.kernel = "matmul",
                     .grid = {4, 1, 1},
                     .block = {128, 1, 1},
                     .arguments = {Pointer{"A"}, Pointer{"B"}, Pointer{"C"}, int64_t{kN}, int64_t{kK}}},
                    {buffer("A", A, false), buffer("B", B, false), buffer("C", made.C, true, false)}, options)
                    .value();
  for (int row = 0; row < kM; ++row)
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += std::bit_cast<float>(uint32_t{A[row * kK + k]} << 16) *
               std::bit_cast<float>(uint32_t{B[k * kN + column]} << 16);
      if (made.C[row * kN + column] != sum)
        FAIL("C[" << row << ", " << column << "] = " << made.C[row * kN + column] << ", not " << sum);
    }
  return made;
}

} // namespace

TEST_CASE("shared memory wavefronts count bank conflicts") {
  CHECK(sharedLoad("u32", "%r3", 4).wavefronts == 1);
  CHECK(sharedLoad("u32", "%r3", 0).wavefronts == 1); // broadcast
  CHECK(sharedLoad("u32", "%r3", 8).wavefronts == 2);
  CHECK(sharedLoad("u32", "%r3", 128).wavefronts == 32);
  CHECK(sharedLoad("u32", "%r3", 128).idealWavefronts == 1);
  CHECK(sharedLoad("u32", "%r3", 132).wavefronts == 1); // padded
  CHECK(sharedLoad("u16", "%h3", 2).wavefronts == 1);
  CHECK(sharedLoad("u64", "%rd3", 8).wavefronts == 2);
  CHECK(sharedLoad("u64", "%rd3", 8).idealWavefronts == 2);
  CHECK(sharedLoad("v4.u32", "{%r3, %r4, %r5, %r6}", 16).wavefronts == 4);
  CHECK(sharedLoad("v4.u32", "{%r3, %r4, %r5, %r6}", 16).idealWavefronts == 4);
  CHECK(sharedLoad("v4.u32", "{%r3, %r4, %r5, %r6}", 128).wavefronts == 32);
  CHECK(sharedLoad("v4.u32", "{%r3, %r4, %r5, %r6}", 16, 8).wavefronts == 1);
  CHECK(sharedLoad("u32", "%r3", 128, 8).wavefronts == 8);
  CHECK(sharedLoad("u32", "%r3", 4).bytes == 128);
}

TEST_CASE("ldmatrix has no conflicts when swizzled and eight times as many wavefronts when not") {
  CHECK(matrixLoad(true).wavefronts == 4);
  CHECK(matrixLoad(false).wavefronts == 32);
  CHECK(matrixLoad(false).idealWavefronts == 4);
}

TEST_CASE("global sectors count what is touched and what is needed") {
  CHECK(globalLoad("u32", "%r3", 4).sectors == 4);
  CHECK(globalLoad("u32", "%r3", 4).minimalSectors == 4);
  CHECK(globalLoad("u32", "%r3", 4, 4).sectors == 5); // not aligned to a sector
  CHECK(globalLoad("u32", "%r3", 32).sectors == 32);
  CHECK(globalLoad("u32", "%r3", 32).minimalSectors == 4);
  CHECK(globalLoad("u32", "%r3", 0).sectors == 1);
  CHECK(globalLoad("v4.u32", "{%r3, %r4, %r5, %r6}", 16).sectors == 16);
}

TEST_CASE("a buffer's bytes are counted, and each of them once") {
  std::vector<uint32_t> in(64), out(64);
  const std::string body = "  ld.global.u32 %r1, [%p0+8];\n  add.u64 %rd1, %p1, %rd49;\n  st.global.u32 [%rd1], %r1;\n "
                           " st.global.u32 [%rd1], %r1;\n";
  const Report report = execute(kernel(body, 2), {buffer("in", in), buffer("out", out)});
  const std::vector<BufferCounters> &buffers = report.counters.buffers;
  REQUIRE(buffers.size() == 2);
  CHECK(buffers[0].name == "in");
  CHECK(buffers[0].bytesRead == 128);
  CHECK(buffers[0].uniqueRead == 4);
  CHECK(buffers[0].bytesWritten == 0);
  CHECK(buffers[1].bytesWritten == 256);
  CHECK(buffers[1].uniqueWritten == 128);
  CHECK(buffers[1].sectors == 8);
}

TEST_CASE("instructions are counted by form, warps and threads") {
  const Report report =
      execute(kernel("  setp.lt.u32 %q1, %r49, 8;\n  @%q1 add.u32 %r1, %r49, 1;\n", 0), {}, {3, 1, 1}, {64, 1, 1});
  CHECK(report.counters.blocks == 3);
  CHECK(report.counters.sum("add.u32").issues == 6);
  CHECK(report.counters.warpInstructions == 6 * 5);
  CHECK(report.counters.threadInstructions == 3 * (4 * 64 + 8));
}

TEST_CASE("a matrix product made by LLVM is right, free of findings, and moves no byte twice") {
  const MatmulRun made = runMatmul(1, 0);
  CHECK(made.report.findingsText() == "");
  const Counters &counters = made.report.counters;
  REQUIRE(counters.matrices.size() == 1);
  CHECK(counters.matrices[0].issued == 2 * 2 * 2 * 96 * 64 * 64 / (16 * 8 * 16) / 2);
  CHECK(counters.sum("ldmatrix").wavefronts == counters.sum("ldmatrix").idealWavefronts);
  CHECK(counters.sum("cp.async").wavefronts == counters.sum("cp.async").idealWavefronts);
  CHECK(counters.buffers[0].uniqueRead == 128 * 96 * 2);
  CHECK(counters.buffers[2].uniqueWritten == 128 * 128 * 4);
  CHECK(counters.buffers[2].bytesWritten == 128 * 128 * 4);
}

TEST_CASE("a block reduction made by LLVM sums") {
  std::vector<float> in(5000), out(5);
  std::iota(in.begin(), in.end(), 0.0f);
  const Module module = Module::parse(readPtx("reduce.ptx")).value();
  const Report report = run(module,
                            {.kernel = "reduce",
                             .grid = {5, 1, 1},
                             .block = {256, 1, 1},
                             .arguments = {Pointer{"in"}, Pointer{"out"}, int64_t{5000}}},
                            {buffer("in", in, false), buffer("out", out, true, false)})
                            .value();
  CHECK(report.findingsText() == "");
  for (unsigned block = 0; block < 5; ++block) {
    double sum = 0;
    for (unsigned i = 1024 * block; i < std::min(5000u, 1024 * (block + 1)); ++i)
      sum += in[i];
    CHECK(out[block] == Approx(sum).epsilon(1e-6));
  }
}

TEST_CASE("nothing depends on the number of threads") {
  const MatmulRun one = runMatmul(1, 5), four = runMatmul(4, 5);
  CHECK(one.report.json() == four.report.json());
  CHECK(one.C == four.C);
  // even where blocks race: each adds to the same word without an atomic
  const std::string body = "  ld.global.u32 %r1, [%p0];\n  mov.u32 %r2, %ctaid.x;\n  mad.lo.u32 %r1, %r1, 3, %r2;\n  "
                           "setp.eq.u32 %q1, %r49, 0;\n  bar.sync 0;\n  @%q1 st.global.u32 [%p0], %r1;\n";
  std::string first;
  uint32_t value = 0;
  for (const int threads : {1, 4, 4, 4}) {
    std::vector<uint32_t> data(1);
    Options options;
    options.threads = threads;
    const Report report = execute(kernel(body, 1), {buffer("data", data)}, {40, 1, 1}, {64, 1, 1}, 0, options);
    CHECK(!report.clean());
    if (first.empty())
      first = report.json(), value = data[0];
    CHECK(report.json() == first);
    CHECK(data[0] == value);
  }
}

TEST_CASE("without checks the results are the same") { CHECK(runMatmul(2, 0, false).C == runMatmul(2, 0, true).C); }

} // namespace yaglom::emulator::test
