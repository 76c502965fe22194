// Every attention of every spec on the emulator in 16 bits: outputs and gradients against float64 on the same, rounded tensors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/Golden.h"
#include "tests/numeric/GradientCase.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

using namespace yaglom;
using namespace yaglom::tests;

namespace {

/// Tokens of an attention in float64. Queries and keys are mostly positive: where relu leaves one feature of a query, the output
/// does not depend on it, and its gradient is a difference of equal terms as large as the inverse of that feature.
Data tokensOf(const Kernel &reference, int64_t rows) {
  Data data = makeData(reference, {1, 1, rows}, DType::f64, 0.5, 11);
  for (const char *input : {"Q", "K"})
    for (int64_t i = 0; i < data[input].size(); ++i)
      data[input].set(i, data[input].at(i) + 0.5);
  return data;
}

/// Bounds are those of the table, or what rounding the tensors does if that is more. `exact` runs on the processor: its
/// gradients are the reference's to 1e-9 (CpuGradientDirections.cpp) and take no minutes.
void compareHalf(const Kernel &half, const Kernel &reference, const Kernel &exact, int64_t rows, int64_t interval) {
  const DType dtype = half.dtype();
  INFO(toText(dtype) << ", " << rows << " rows, residual " << interval);
  const Data data = tokensOf(reference, rows);
  Data rounded = data;
  roundTo(rounded, dtype);
  const std::vector<double> expected = run(reference, rounded);
  const double change = relativeError(run(reference, data), expected);
  CHECK(relativeError(run(half, rounded), expected) < halfBound(dtype, change));

  const Tensor grad = randomGrad(exact, data.sizes, DType::f64), roundedGrad = randomGrad(exact, data.sizes, dtype);
  const Gradients found = backward(half, rounded, roundedGrad, 1, interval);
  const Gradients right = backward(exact, rounded, roundedGrad), near = backward(exact, data, grad);
  const double floor = rms(valuesOf(right["grad.V"]));
  for (const auto &[name, tensor] : right) {
    INFO(name);
    const std::vector<double> values = valuesOf(tensor);
    const double gradientChange = relativeError(valuesOf(near[name]), values, floor);
    CHECK(relativeError(valuesOf(found[name]), values, floor) < halfGradientBound(data, name, dtype, gradientChange));
  }
}

} // namespace

TEST_CASE("emulated: every attention of every spec equals float64 in 16 bits, forward and backward") {
  constexpr int64_t kD = 5, kE = 6;
  int attentions = 0;
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions()) {
      INFO(file << ": " << name);
      const Kernel reference = compiled(spec, name, options(DType::f64, kD, kE, Target::reference())),
                   exact = compiled(spec, name, options(DType::f64, kD, kE, Target::host()));
      ++attentions;
      for (const DType dtype : {DType::bf16, DType::f16}) {
        const Kernel half = compiled(spec, name, options(dtype, kD, kE, Target::parse("emulated").value()));
        // Of two neighbouring attentions one goes from a residual in bfloat16, the other in float16.
        const int64_t interval = (attentions + (dtype == DType::f16 ? 1 : 0)) % 2;
        for (const int64_t rows : {33, 65})
          compareHalf(half, reference, exact, rows, interval);
      }
    }
  }
  CHECK(attentions >= 18);
}

TEST_CASE("emulated: states in registers equal float64 in bfloat16, forward and backward") {
  constexpr int64_t kWidth = 32; // wide enough for a tile of the state for every warp
  for (const auto &[file, name] : {std::pair{"flexformer_n", "flexformer_n_attention"}, std::pair{"rfa", "rfa_gated"},
                                   std::pair{"performer", "performer"}}) {
    INFO(name);
    const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + std::string(file) + ".phi").value();
    auto kernel = [&](DType dtype, const Target &target) {
      return compiled(spec, name, options(dtype, kWidth, kWidth, target));
    };
    const Kernel half = kernel(DType::bf16, Target::parse("emulated").value()),
                 reference = kernel(DType::f64, Target::reference()), exact = kernel(DType::f64, Target::host());
    for (const int64_t interval : {0, 1})
      compareHalf(half, reference, exact, 70, interval);
  }
}
