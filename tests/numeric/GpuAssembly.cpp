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
  struct Machine {
    const char *target, *architecture;
    DType dtype;
  };
  for (const Case &each :
       {Case{"flexformer_n", "flexformer_n_attention", "n", 64}, Case{"performer", "performer", "m", 128},
        Case{"linear_transformer", "linear_transformer", nullptr, 0}})
    for (const auto &[target, architecture, dtype] :
         {Machine{"sm_80", "sm_80", DType::bf16}, Machine{"sm_80", "sm_80", DType::f32},
          Machine{"sm_90", "sm_90a", DType::bf16}, Machine{"sm_90", "sm_90a", DType::f32},
          Machine{"sm_100", "sm_100a", DType::bf16}, Machine{"sm_120", "sm_120a", DType::bf16}})
      for (const int64_t width : {64, 128}) {
        INFO(each.spec << " d = e = " << width << " " << toText(dtype) << " " << architecture);
        CompileOptions settings = options(dtype, width, width, Target::parse(target).value());
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
