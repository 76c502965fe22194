// Schedules as text, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/schedule.h"
#include "tests/unit/Catch.h"

using namespace yaglom;

namespace {

std::string errorOf(const std::string &text) {
  const Result<Schedule> schedule = Schedule::parse(text);
  return schedule ? "" : schedule.error().what();
}

} // namespace

TEST_CASE("the text of a schedule reads back the same") {
  for (const char *text :
       {"default", "chunk=64", "chunk=16 granule=8 tile=6x2 pointwise=4 unroll=8 prefetch=none segments=3",
        "prefetch=4", "warps=8 stages=2"})
    CHECK(Schedule::parse(text).value().toText() == text);
  CHECK(Schedule::parse("tile=12x1,unroll=2").value() == Schedule{.tileRows = 12, .tileVectors = 1, .unroll = 2});
  CHECK(Schedule::parse("").value().isDefault());
  CHECK(Schedule::parse("chunk=0 unroll=0").value().toText() == "default");
}

TEST_CASE("a mistake in a schedule names the field, what is expected and what was found") {
  CHECK(errorOf("chunk") == "schedule: expected NAME=VALUE, found 'chunk'");
  CHECK(errorOf("chunk=x") ==
        "schedule: expected a number from 1 to 4096 (0: the compiler chooses) for 'chunk', found 'x'");
  CHECK(errorOf("chunk=-1") ==
        "schedule: expected a number from 1 to 4096 (0: the compiler chooses) for 'chunk', found '-1'");
  CHECK(errorOf("prefetch=-1") ==
        "schedule: expected a number from 1 to 64 (0: the compiler chooses), or none for 'prefetch', found '-1'");
  CHECK(errorOf("warps=3") ==
        "schedule: expected a power of two from 1 to 32 (0: the compiler chooses) for 'warps', found '3'");
  CHECK(errorOf("tile=6") == "schedule: expected ROWSxVECTORS, like 6x2 for 'tile', found '6'");
  CHECK(errorOf("tile=6x3") == "schedule: expected 1, 2, 4 or 8 vectors in a row for 'tile', found '6x3'");
  CHECK(errorOf("tile=40x1") == "schedule: expected 1 to 32 rows for 'tile', found '40x1'");
  CHECK(errorOf("chunks=1") ==
        "schedule: there is no field 'chunks'; there are tile, chunk, granule, pointwise, unroll, "
        "prefetch, segments, warps, stages");
  CHECK(Schedule{.tileRows = 4}.check().error().what() ==
        std::string("schedule: expected 1, 2, 4 or 8 vectors in a row for 'tile', found '4x0'"));
}
