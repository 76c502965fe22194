// What the emulator counts in kernels of the usual size: the hardware's minimum, or close to it.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/EmulatedDevice.h"
#include "tests/numeric/CpuCase.h"

#include "tests/unit/Catch.h"

#include <algorithm>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr int64_t kRows = 512, kWidth = 64;

/// The launch of `forward`, d = e = n = 64, bfloat16, 512 tokens.
runtime::EmulatorReports::Launch launchOf(const std::string &spec, const std::string &attention) {
  CompileOptions settings = options(DType::bf16, kWidth, kWidth, Target::parse("emulated").value());
  const Kernel kernel =
      compiled(Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + spec + ".phi").value(), attention, settings);
  const Data data = makeData(kernel, {1, 1, kRows}, DType::bf16, 0.35);
  const runtime::EmulatorReports reports;
  run(kernel, data, 0);
  REQUIRE(reports.launches.size() == 1);
  return reports.launches.front();
}

} // namespace

TEST_CASE("emulated: counters of forward kernels are at the hardware's minimum") {
  struct Case {
    const char *spec, *attention;
    int64_t features, projections; ///< and products of width 64 a token that make the features of q and k
  };
  for (const Case &each :
       {Case{"flexformer_n", "flexformer_n_attention", 128, 4}, Case{"performer", "performer", 64, 2},
        Case{"linear_transformer", "linear_transformer", 64, 0}}) {
    INFO(each.spec);
    const auto launch = launchOf(each.spec, each.attention);
    const emulator::Counters &counters = launch.report.counters;
    CHECK(launch.report.clean()); // no race, nothing uninitialised, nothing out of bounds
    // Operand tiles: no bank is met twice.
    const emulator::InstructionCounters operands = counters.sum("ldmatrix");
    CHECK(operands.issues > 0);
    CHECK(operands.wavefronts == operands.idealWavefronts);
    // Inputs once, the output once.
    for (const emulator::BufferCounters &buffer : counters.buffers) {
      INFO(buffer.name);
      const bool isInput = buffer.name.ends_with(": Q") || buffer.name.ends_with(": K") || buffer.name.ends_with(": V");
      if (isInput) {
        CHECK(buffer.bytesRead == buffer.uniqueRead);
        CHECK(buffer.uniqueRead == uint64_t{kRows * kWidth * 2});
      }
      if (buffer.name.ends_with(": O")) {
        CHECK(buffer.bytesWritten == buffer.uniqueWritten);
        CHECK(buffer.uniqueWritten == uint64_t{kRows * kWidth * 2});
      }
      if (isInput || buffer.name.ends_with(": O"))
        CHECK(static_cast<double>(buffer.sectors) <= 1.05 * static_cast<double>(buffer.minimalSectors));
    }
    // Products: projections, query times state, the state's update, and within a chunk of 32 the blocks of 16 rows up to the
    // diagonal, which meet 24 keys on average.
    const double needed =
        double(kRows) *
        double(each.projections * kWidth * kWidth + 2 * each.features * kWidth + 24 * (each.features + kWidth)) /
        (16 * 8 * 16);
    REQUIRE(counters.matrices.size() == 1);
    CHECK(double(counters.matrices[0].issued) <= 1.05 * needed);
    CHECK(double(counters.matrices[0].issued) >= needed);
  }
}

TEST_CASE("emulated: the same bits for any number of threads of the host and any order of warps") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Kernel kernel = compiled(Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/rfa.phi").value(), "rfa_gated",
                                   options(dtype, 16, 8, Target::parse("emulated").value()));
    const Data data = makeData(kernel, {2, 2, 70}, dtype, 0.5);
    CHECK(same(run(kernel, data, 1), run(kernel, data, 5)));
  }
}
