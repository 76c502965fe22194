// How long compiling takes: in processor time, so that a busy machine does not matter, and with room for a slow one.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"
#include "runtime/Compiled.h"
#include "tests/unit/Catch.h"
#include "yaglom/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

using namespace yaglom;

namespace {

double secondsToBuild(const Spec &spec, const std::string &attention, Pass pass, int64_t width = 16) {
  const CompileOptions options{.headDim = width};
  const Instance instance = runtime::bindOptions(spec, attention, options).value();
  const std::clock_t start = std::clock();
  if (pass == Pass::Forward)
    REQUIRE(compiler::build(instance, options));
  else
    REQUIRE(compiler::buildBackward(instance, options, compiler::Keeps::Nothing));
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// A feature map of `layers` layers, no two alike.
Spec chain(int layers) {
  std::string text = "map f(x: [d]) -> [d] {\n";
  for (int i = 0; i < layers; ++i)
    text += fmt::format("  param W{0}: [d, d] ~ gaussian()\n  let y{1} = cos(W{0} @ {2}) + {1}\n", i, i + 1,
                        i ? fmt::format("y{}", i) : "x");
  text += fmt::format("  return y{}\n}}\nattention a(Q; K, V) = linear(f(Q), f(K), V) with causal\n", layers);
  return Spec::parse(text).value();
}

} // namespace

// The host's kernels, whatever target the tests are for.
TEST_CASE("every shipped attention is compiled in about a second", "[cpu-only]") {
  for (const auto &file : std::filesystem::directory_iterator(YAGLOM_SOURCE_DIR "/examples/specs")) {
    if (file.path().extension() != ".phi")
      continue;
    const Spec spec = Spec::parseFile(file.path()).value();
    for (const std::string &attention : spec.attentions()) {
      INFO(attention);
      CHECK(secondsToBuild(spec, attention, Pass::Forward, 64) < 2); // of a slow machine
    }
  }
}

TEST_CASE("compiling grows linearly with the spec", "[cpu-only]") {
  for (const Pass pass : {Pass::Forward, Pass::Backward}) {
    secondsToBuild(chain(1), "a", pass); // what is done once a process
    const double few = std::min(secondsToBuild(chain(2), "a", pass), secondsToBuild(chain(2), "a", pass));
    const double many = secondsToBuild(chain(8), "a", pass);
    INFO(few << " s for 2 layers, " << many << " s for 8");
    CHECK(many < 8 * few); // 4 when it is linear, 16 when it is quadratic
  }
}
