// A long sequence: the error does not grow, and memory does not either.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <cstdlib>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

/// The error of float32 on `rows` tokens of rms 0.35 against the same kernel in float64, which equals the reference on a
/// prefix.
double longError(int64_t rows) {
  const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/flexformer_n.phi").value();
  const std::string name = "flexformer_n_attention";
  const Kernel exact = compiled(spec, name, options(DType::f64, 64, 64)),
               kernel = compiled(spec, name, options(DType::f32, 64, 64));
  CHECK(kernel.scratchBytes() < 1 << 20);

  const Kernel reference = compiled(spec, name, options(DType::f64, 64, 64, Target::reference()));
  const Data prefix = makeData(reference, {1, 1, 300}, DType::f32, 0.35);
  CHECK(relativeError(run(exact, prefix), run(reference, prefix)) < tolerance(DType::f64, 300));

  const Data data = makeData(kernel, {1, 1, rows}, DType::f32, 0.35);
  return relativeError(run(kernel, data), run(exact, data));
}

} // namespace

TEST_CASE("a long sequence of flexformer_n has an error below 1e-6", "[slow-on-emulator]") {
  CHECK(longError(fewerOnEmulator(100'000, 1500)) < 1e-6);
}

/// Takes a minute and 3 GB: by name only.
TEST_CASE("1 000 000 tokens of flexformer_n have an error below 1e-6", "[.long]") {
  CHECK(longError(1'000'000) < 1e-6);
}
