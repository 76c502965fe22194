// What NVIDIA's assembler makes of our kernels, where it is installed: nothing spills.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"
#include "runtime/Compiled.h"
#include "runtime/cuda/Assembler.h"
#include "tests/numeric/CpuCase.h"

#include "tests/unit/Catch.h"

using namespace yaglom;
using namespace yaglom::tests;

TEST_CASE("assembled: forward kernels of width 64 and 128 spill nothing on any architecture") {
  const auto assembler = cuda::findAssembler();
  if (!assembler) {
    WARN("skipped: " << assembler.error().what());
    return;
  }
  struct Case {
    const char *spec, *attention, *dim; ///< dim: of the features, or null
    int64_t features;
  };
  for (const Case &each :
       {Case{"flexformer_n", "flexformer_n_attention", "n", 64}, Case{"performer", "performer", "m", 128},
        Case{"linear_transformer", "linear_transformer", nullptr, 0}})
    for (const int64_t width : {64, 128})
      for (const auto &[target, architecture] : {std::pair{"sm_80", "sm_80"}, std::pair{"sm_90", "sm_90a"},
                                                 std::pair{"sm_100", "sm_100a"}, std::pair{"sm_120", "sm_120a"}}) {
        INFO(each.spec << " d = e = " << width << " " << architecture);
        CompileOptions settings = options(DType::bf16, width, width, Target::parse(target).value());
        if (each.dim)
          settings.dims[each.dim] = each.features;
        const Spec spec =
            Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + std::string(each.spec) + ".phi").value();
        const auto program =
            compiler::build(runtime::bindOptions(spec, each.attention, settings).value(), settings).value();
        const auto assembly =
            (*assembler)->assemble(program.code.bytes, {.architecture = architecture, .optimization = 1});
        REQUIRE(assembly);
        const cuda::FunctionReport *report = assembly->report.find("forward");
        REQUIRE(report);
        CHECK(report->spillStoreBytes == 0);
        CHECK(report->spillLoadBytes == 0);
        CHECK(report->registers <= 255);
        CHECK(program.forward.gpu.sharedBytes <= 227 * 1024);
      }
}
