// The in-memory cache: one compile for one key, whoever asks, and errors are not kept.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Cache.h"
#include "tests/unit/Catch.h"
#include "tests/unit/runtime/Fake.h"

#include <atomic>
#include <barrier>
#include <latch>
#include <thread>

using namespace yaglom;
using namespace yaglom::fake;
using runtime::Cache;

namespace {

Cache::Value emptyKernel() {
  return std::make_shared<const runtime::Compiled>(Spec::parse(kCausal).value(), Instance(), CompileOptions(), nullptr);
}

} // namespace

TEST_CASE("sixty-four threads that ask for one kernel compile it once") {
  Cache cache;
  std::atomic<int> compiled = 0;
  std::atomic<int> fresh = 0;
  std::vector<const runtime::Compiled *> found(64);
  std::barrier start(64);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 64; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      const Cache::Answer answer = cache.get("key", [&] {
        ++compiled;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return emptyKernel();
      });
      found[i] = answer.value->get();
      fresh += !answer.wasPresent;
    });
  threads.clear();
  CHECK(compiled == 1);
  CHECK(fresh == 1);
  CHECK(std::all_of(found.begin(), found.end(), [&](const void *kernel) { return kernel == found[0]; }));
}

TEST_CASE("two keys compile at the same time") {
  Cache cache;
  std::latch both(2); // each compile waits for the other to have begun
  const auto compile = [&] {
    both.arrive_and_wait();
    return emptyKernel();
  };
  std::jthread other([&] { cache.get("one", compile); });
  CHECK(cache.get("two", compile).value);
}

TEST_CASE("an error is given and not kept") {
  Cache cache;
  int calls = 0;
  const auto fail = [&]() -> Cache::Value { return ++calls, Error("it does not compile"); };
  CHECK(cache.get("key", fail).value.error().what() == std::string("it does not compile"));
  CHECK(!cache.get("key", fail).value);
  CHECK(calls == 2);
  CHECK(!cache.get("key", emptyKernel).wasPresent);
  CHECK(cache.get("key", emptyKernel).wasPresent);
}

TEST_CASE("an exception of the compiler reaches all who wait, and is not kept") {
  Cache cache;
  const auto fail = []() -> Cache::Value { throw std::bad_alloc(); };
  CHECK_THROWS_AS(cache.get("key", fail), std::bad_alloc);
  CHECK(cache.get("key", emptyKernel).value);
}

TEST_CASE("the same compile asked twice takes no time") {
  const Spec spec = Spec::parse(kCausal).value();
  const CompileOptions options{.target = Target::reference(), .headDim = 5};
  CHECK(compile(spec, "a", options).value().compileMilliseconds() > 0);
  CHECK(compile(spec, "a", options).value().compileMilliseconds() == 0);
}

TEST_CASE("everything that the code depends on makes another kernel") {
  const Spec spec = Spec::parse("dim n = 3 dim m = 3 attention a(Q; K, V) = linear(Q, K, V) * n * m").value();
  const auto isNew = [&](const CompileOptions &options) {
    return compile(spec, "a", options).value().compileMilliseconds() > 0;
  };
  const CompileOptions base{.target = Target::reference(), .headDim = 6};
  CHECK(isNew(base));
  CHECK(!isNew({.target = Target::reference(), .headDim = 6, .valueDim = 6}));
  CHECK(!isNew({.target = Target::reference(), .headDim = 6, .dims = {{"n", 3}}}));
  CHECK(isNew({.target = Target::reference(), .headDim = 7}));
  CHECK(isNew({.target = Target::reference(), .headDim = 6, .valueDim = 7}));
  CHECK(isNew({.target = Target::reference(), .headDim = 6, .dims = {{"n", 4}}}));
  CHECK(isNew({.target = Target::reference(), .headDim = 6, .dims = {{"m", 4}}}));
  CHECK(isNew({.target = Target::reference(), .headDim = 6, .dtype = DType::f64}));
  CHECK(isNew({.target = Target::reference(), .headDim = 6, .schedule = {.chunk = 16}}));
}

TEST_CASE("blanks and comments of a spec do not matter to the cache") {
  const CompileOptions options{.target = Target::reference(), .headDim = 9};
  const Spec one = Spec::parse("attention a(Q; K, V) = linear(Q, K, V)").value();
  const Spec two = Spec::parse("# the same\nattention a ( Q;K,V )=linear(Q,  K, V)", "other.phi").value();
  CHECK(compile(one, "a", options).value().compileMilliseconds() > 0);
  CHECK(compile(two, "a", options).value().compileMilliseconds() == 0);
}
