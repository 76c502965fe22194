// A loop of multiply-adds in registers for each vector extension, on several threads at a time.
// SPDX-License-Identifier: Apache-2.0
#include "bench/Peak.h"

#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace yaglom::bench {
namespace {

/// Steps of one call: about a tenth of a millisecond.
constexpr int64_t kSteps = 20000;

/// A loop for one instruction set: runs kSteps steps, each of `flops` operations.
struct Loop {
  void (*run)();
  double flops;
};

// Latency 4 or 5 and two units a core ask for 10 independent sums at least. x * 0.5 + 1 stays between 1 and 2: no
// denormals. The first empty asm hides that all sums start alike, or a compiler may compute equal ones once; the last makes
// each sum's value needed, without a store.
#define YAGLOM_PEAK_LOOP(name, isa, vector, broadcast, multiplyAdd, count, constraint)                                 \
  __attribute__((target(isa))) void name() {                                                                           \
    const vector half = broadcast(0.5);                                                                                \
    const vector one = broadcast(1.0);                                                                                 \
    vector sums[count];                                                                                                \
    _Pragma("GCC unroll 24") for (int k = 0; k < count; ++k) sums[k] = one;                                            \
    _Pragma("GCC unroll 24") for (int k = 0; k < count; ++k) asm volatile("" : "+" constraint(sums[k]));               \
    for (int64_t step = 0; step < kSteps; ++step) {                                                                    \
      _Pragma("GCC unroll 24") for (int k = 0; k < count; ++k) sums[k] = multiplyAdd(sums[k], half, one);              \
    }                                                                                                                  \
    _Pragma("GCC unroll 24") for (int k = 0; k < count; ++k) asm volatile("" : : constraint(sums[k]));                 \
  }

#if defined(__x86_64__)
YAGLOM_PEAK_LOOP(avx512f32, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, 24, "v")
YAGLOM_PEAK_LOOP(avx512f64, "avx512f", __m512d, _mm512_set1_pd, _mm512_fmadd_pd, 24, "v")
YAGLOM_PEAK_LOOP(avx2f32, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, 12, "x")
YAGLOM_PEAK_LOOP(avx2f64, "avx2,fma", __m256d, _mm256_set1_pd, _mm256_fmadd_pd, 12, "x")
#endif

/// For other processors: what the compiler makes of 64 sums with the baseline instruction set.
template <typename T>
void portable() {
  constexpr int kSums = 64;
  T sums[kSums];
  for (T &sum : sums)
    sum = 1;
  for (int64_t step = 0; step < kSteps; ++step)
    for (T &sum : sums)
      sum = sum * T(0.5) + T(1);
  for (T &sum : sums)
    asm volatile("" : : "m"(sum));
}

Loop fastestLoop(DType dtype) {
  const bool single = dtype == DType::f32;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return single ? Loop{avx512f32, 2.0 * 24 * 16} : Loop{avx512f64, 2.0 * 24 * 8};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return single ? Loop{avx2f32, 2.0 * 12 * 8} : Loop{avx2f64, 2.0 * 12 * 4};
#endif
  return single ? Loop{portable<float>, 2.0 * 64} : Loop{portable<double>, 2.0 * 64};
}

/// Operations a second of one thread that repeats `loop` for `seconds`.
double measureOne(const Loop &loop, double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  double elapsed = 0;
  double calls = 0;
  do {
    loop.run();
    ++calls;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (elapsed < seconds);
  return calls * loop.flops * kSteps / elapsed;
}

} // namespace

double measurePeakGflops(int threads, DType dtype, double milliseconds) {
  const Loop loop = fastestLoop(dtype);
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::barrier start(threads);
  const auto work = [&](std::size_t thread) {
    start.arrive_and_wait();
    rates[thread] = measureOne(loop, milliseconds * 1e-3);
  };
  std::vector<std::jthread> others;
  for (std::size_t thread = 1; thread < rates.size(); ++thread)
    others.emplace_back(work, thread);
  work(0);
  others.clear();
  double sum = 0;
  for (double rate : rates)
    sum += rate;
  return sum * 1e-9;
}

} // namespace yaglom::bench
