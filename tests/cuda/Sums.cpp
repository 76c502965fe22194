// The runtime's own kernels: sums over items, in every element type, the bits of the host's.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/SumKernels.h"

#include "runtime/Backward.h"
#include "runtime/cuda/Assembler.h"
#include "support/Elements.h"
#include "tests/numeric/CpuCase.h"
#include "tests/unit/Catch.h"

using namespace yaglom;
using namespace yaglom::tests;

namespace {

Tensor randomTensor(DType dtype, const Shape &shape, uint64_t seed) {
  Tensor tensor(dtype, shape);
  Random random(seed);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, random.normal());
  return tensor;
}

} // namespace

TEST_CASE("sums over batch, and over shared heads, are the bits of the host's, set or added") {
  const auto device = runtime::emulatedDevice("sm_80");
  constexpr int64_t kBatch = 3, kHeads = 2, kElements = 333;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const bool shared : {false, true})
      for (const bool adds : {false, true}) {
        INFO(toText(dtype) << (shared ? " shared" : "") << (adds ? " added" : ""));
        Tensor items = randomTensor(dtype, {kBatch, kHeads, kElements}, 3);
        const runtime::HeadTensor info{"x", shared, {kElements}};
        Tensor sums = randomTensor(dtype, info.shapeFor(kHeads), 4), expected = sums;
        const Tensor fresh = runtime::sumItems(info, items, kBatch, kHeads);
        for (int64_t i = 0; i < expected.size(); ++i)
          expected.set(i, (adds ? expected.at(i) : 0) + fresh.at(i));
        const auto session = device->begin({.threads = 1});
        runtime::sumItems(*device,
                          {dtype, static_cast<const char *>(items.data()), static_cast<char *>(sums.data()), kElements,
                           kHeads, kBatch, shared, adds},
                          *session);
        for (int64_t i = 0; i < sums.size(); ++i)
          REQUIRE(same(sums.at(i), expected.at(i)));
      }
}

TEST_CASE("NVIDIA's assembler takes the sums, where there is one") {
  const auto assembler = cuda::findAssembler();
  if (!assembler)
    return;
  for (const char *architecture : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    const auto assembly = (*assembler)->assemble(runtime::sumKernelsPtx(), {.architecture = architecture});
    INFO(architecture << (assembly ? "" : assembly.error().what()));
    REQUIRE(assembly);
    CHECK(assembly->report.functions.size() == 4);
    CHECK(assembly->report.warnings.empty());
    for (const cuda::FunctionReport &function : assembly->report.functions)
      CHECK(function.spillStoreBytes == 0);
  }
}
