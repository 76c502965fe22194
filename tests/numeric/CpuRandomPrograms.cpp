// Random programs, compiled and compared with the reference: crashes and wrong values.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/RandomProgram.h"

#include "tests/unit/Catch.h"

#include <cmath>
#include <cstdlib>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

/// Programs are deep: a hundred operations round, and each may amplify. What is wrong is wrong by more.
constexpr double kTolerance = 1e-9, kTolerance32 = 1e-3;
/// A program that amplifies a change of its inputs by more than this compares nothing.
constexpr double kAmplification = 1e3;

/// What became of the program of a seed.
enum class Verdict { Compared, IllConditioned };

Verdict check(uint64_t seed) {
  const RandomProgram program = randomProgram(seed);
  INFO("seed " << seed << ", d = " << program.d << ", e = " << program.e << ", rows " << program.sizes.rows
               << ", key rows " << program.sizes.keyRows << ", chunk " << program.chunk
               << (program.dtype == DType::f32 ? ", f32\n" : ", f64\n") << program.text);
  Result<Spec> spec = Spec::parse(program.text, "random.phi");
  if (!spec) {
    UNSCOPED_INFO(spec.error().what());
    FAIL("the generator made a program that does not check");
  }
  const Kernel reference = compiled(*spec, "a", options(DType::f64, program.d, program.e, Target::reference()));
  const Data data = makeData(reference, program.sizes, program.dtype, 0.6, seed);
  const std::vector<double> expected = run(reference, data);
  if (!(amplification(reference, data) < kAmplification))
    return Verdict::IllConditioned;

  Result<Kernel> kernel =
      compile(*spec, "a", options(program.dtype, program.d, program.e, testedTarget(), program.chunk));
  if (!kernel) {
    UNSCOPED_INFO(std::string(kernel.error().what()).substr(0, 2000));
    FAIL("the compiler fails");
  }
  const double error = relativeError(run(*kernel, data), expected);
  CHECK(error < (program.dtype == DType::f32 ? kTolerance32 : kTolerance));
  return Verdict::Compared;
}

void checkSeeds(uint64_t begin, uint64_t end) {
  int compared = 0;
  for (uint64_t seed = begin; seed < end; ++seed)
    compared += check(seed) == Verdict::Compared;
  // A generator whose programs compare nothing tests nothing.
  CHECK(compared > static_cast<int>(end - begin) * 3 / 4);
}

} // namespace

TEST_CASE("random programs compute what the reference computes (part 1)", "[slow-on-emulator]") { checkSeeds(0, 50); }
TEST_CASE("random programs compute what the reference computes (part 2)", "[slow-on-emulator]") { checkSeeds(50, 100); }
TEST_CASE("random programs compute what the reference computes (part 3)", "[slow-on-emulator]") {
  checkSeeds(100, 150);
}
TEST_CASE("random programs compute what the reference computes (part 4)", "[slow-on-emulator]") {
  checkSeeds(150, 200);
}

/// YAGLOM_SEEDS=BEGIN:END numeric-cpu "[.seeds]" looks further.
TEST_CASE("random programs of the seeds in YAGLOM_SEEDS compute what the reference computes", "[.seeds]") {
  const char *text = std::getenv("YAGLOM_SEEDS");
  REQUIRE(text);
  char *colon = nullptr;
  const uint64_t begin = std::strtoull(text, &colon, 10);
  REQUIRE(*colon == ':');
  checkSeeds(begin, std::strtoull(colon + 1, nullptr, 10));
}
