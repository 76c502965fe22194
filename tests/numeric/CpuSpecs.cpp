// Compiled kernels against the golden cases, and every attention of every spec against the reference.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuGolden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <algorithm>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

const char *text(DType dtype) { return dtype == DType::f32 ? " f32" : " f64"; }

} // namespace

TEST_CASE("compiled kernels reproduce every golden output and draw", "[slow-on-emulator]") {
  int outputs = 0, draws = 0;
  for (const std::string &file : goldenFiles()) {
    const Golden golden = loadGolden(file);
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(file << text(dtype));
      const double bound = dtype == DType::f32 ? 5e-6 : 1e-9;
      const Kernel kernel = kernelOf(golden, dtype);
      Parameters drawn;
      const Data data = dataOf(golden, kernel, drawn);
      CHECK(relativeError(run(kernel, data), golden.expected.at("O").data) < bound);
      ++outputs;
      for (const auto &[name, expected] : golden.expected)
        if (name.starts_with("draw.")) {
          INFO(name);
          const Tensor &tensor = drawn[name.substr(5)];
          std::vector<double> values;
          for (int64_t i = 0; i < tensor.size(); ++i)
            values.push_back(tensor.at(i));
          CHECK(relativeError(values, expected.data) < bound);
          ++draws;
        }
    }
  }
  CHECK(outputs >= 160);
  CHECK(draws >= 4);
}

namespace {

void compareSpecs(DType dtype, int64_t d, int64_t e) {
  int attentions = 0;
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions()) {
      ++attentions;
      const Kernel reference = compiled(spec, name, options(DType::f64, d, e, Target::reference()));
      const Kernel kernel = compiled(spec, name, options(dtype, d, e));
      for (const int64_t rows : {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129}) {
        INFO(file << ": " << name << text(dtype) << " d = " << d << ", e = " << e << ", " << rows << " rows");
        const Data data = makeData(reference, {rows < 20 ? 2 : 1, 2, rows}, dtype, dtype == DType::f32 ? 0.2 : 0.7, 11);
        const std::vector<double> found = run(kernel, data), expected = run(reference, data);
        CHECK(countNonFinite(found) == 0);
        CHECK(relativeError(found, expected) < conditioned(reference, data, dtype, rows));
      }
    }
  }
  CHECK(attentions >= 18);
}

} // namespace

TEST_CASE("every attention of every spec equals the reference in float64", "[slow-on-emulator]") {
  compareSpecs(DType::f64, 6, 4);
}
TEST_CASE("every attention of every spec equals the reference in float32", "[slow-on-emulator]") {
  compareSpecs(DType::f32, 16, 12);
}

TEST_CASE("cross attention equals the reference, whatever the lengths of queries and keys") {
  int attentions = 0;
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions()) {
      const Kernel reference = compiled(spec, name, options(DType::f64, 6, 4, Target::reference()));
      if (isCausal(reference))
        continue;
      ++attentions;
      const Kernel kernel = compiled(spec, name, options(DType::f64, 6, 4));
      for (const auto &[rows, keyRows] :
           {std::pair<int64_t, int64_t>{1, 70}, {70, 1}, {33, 64}, {64, 33}, {5, 0}, {0, 5}, {100, 129}}) {
        INFO(name << ": " << rows << " queries, " << keyRows << " keys");
        const Data data = makeData(reference, {1, 2, rows, keyRows}, DType::f64, 0.7, 3);
        CHECK(relativeError(run(kernel, data), run(reference, data)) < tolerance(DType::f64, keyRows));
      }
    }
  }
  CHECK(attentions >= 3);
}
