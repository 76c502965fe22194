// Two races that the thread sanitizer must find, so that its silence elsewhere means something. Built in its preset only.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Launch.h"
#include "runtime/Pool.h"

#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

namespace {

using namespace yaglom;

constexpr int64_t kItems = 64;

/// Long enough that a second thread takes part.
void linger() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

/// Bodies of the pool that count in one variable.
int64_t countWithoutOrder() {
  int64_t count = 0;
  runtime::parallelFor(kItems, 2, [&](int64_t begin, int64_t end) {
    linger();
    count += end - begin;
  });
  return count;
}

void writeOne(const int64_t *arguments, void *) {
  linger();
  *reinterpret_cast<float *>(arguments[compiler::Entry::kHeaderWords]) += 1;
}

/// Work items of a launch that write one address: what the check of the output's strides keeps away from kernels.
int64_t writeOverlapping() {
  float shared = 0;
  const compiler::Entry entry{.function = writeOne, .gpu = {}, .operands = {"O"}};
  const runtime::Operand output{.data = reinterpret_cast<char *>(&shared), .written = true, .rows = 1};
  runtime::launch(entry, 0, {.batch = 1, .heads = kItems, .queryRows = 1}, {&output, 1}, DType::f32,
                  {nullptr, {.threads = 2}});
  return static_cast<int64_t>(shared);
}

/// The same work without a race: the sanitizer must be silent.
int64_t countApart() {
  int64_t counts[kItems] = {};
  runtime::parallelFor(kItems, 2, [&](int64_t begin, int64_t end) {
    linger();
    for (int64_t item = begin; item < end; ++item)
      counts[item] = 1;
  });
  int64_t sum = 0;
  for (int64_t count : counts)
    sum += count;
  return sum;
}

} // namespace

int main(int argc, char **argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  if (which == "pool")
    std::printf("%ld items\n", static_cast<long>(countWithoutOrder()));
  else if (which == "launch")
    std::printf("%ld items\n", static_cast<long>(writeOverlapping()));
  else if (which == "none")
    std::printf("%ld items\n", static_cast<long>(countApart()));
  else
    return 2;
  return 0;
}
