// The demo: four kernel attentions read a real text of 16384 bytes, are checked against the definition, timed, and compared
// with softmax attention over the same text.
// SPDX-License-Identifier: Apache-2.0
#include "bench/Peak.h"
#include <yaglom/yaglom.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace yaglom;

namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kWidth = 64;
constexpr int64_t kLength = 16384;
constexpr int64_t kChecked = 1000; ///< rows compared with the reference, which takes quadratic time
constexpr double kInputRms = 0.35;
constexpr double kTolerance = 1e-5;
constexpr uint64_t kSeed = 7;
constexpr const char *kDefaultText = "/usr/share/common-licenses/GPL-3";

struct Attention {
  const char *label;
  const char *file;
  const char *name;
};

constexpr Attention kAttentions[] = {
    {"flexformer_n", "flexformer_n.phi", "flexformer_n_attention"},
    {"flexformer_s", "flexformer_s.phi", "flexformer_s_attention"},
    {"fska (causal)", "fska.phi", "fska_causal"},
    {"performer", "performer.phi", "performer"},
};

struct Row {
  std::string label;
  double compileMs = 0;
  double seconds = 0;     ///< of one launch
  double shareOfPeak = 0; ///< necessary work a second, by the rate of multiply-adds measured beside it
  double error = 0;       ///< relative rms against the reference
  double scratchMb = 0;   ///< of all threads together
};

void progress(const std::string &text) {
  std::fprintf(stderr, "  %s\n", text.c_str());
  std::fflush(stderr);
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The first kLength bytes of the file, which is repeated when it is shorter.
std::vector<uint8_t> readText(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<uint8_t> text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (text.empty())
    throw std::runtime_error(path + ": cannot be read, or is empty");
  const size_t once = text.size();
  for (size_t i = once; i < size_t(kLength); ++i)
    text.push_back(text[i - once]);
  text.resize(kLength);
  return text;
}

/// [1, heads, tokens, width]: a token sees its byte and the three before it, each through a random projection of its own,
/// fixed by `seed`; scaled to entries of rms kInputRms.
Tensor embed(const std::vector<uint8_t> &text, uint64_t seed) {
  constexpr int64_t kWindow = 4;
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> projection(kHeads * kWindow * 256 * kWidth);
  std::generate(projection.begin(), projection.end(), [&] { return normal(generator); });

  Tensor embedded(DType::f32, {1, kHeads, kLength, kWidth});
  float *out = static_cast<float *>(embedded.data());
  double squares = 0;
  for (int64_t head = 0; head < kHeads; ++head)
    for (int64_t token = 0; token < kLength; ++token, out += kWidth) {
      for (int64_t back = 0; back < std::min(kWindow, token + 1); ++back) {
        const float *row = &projection[((head * kWindow + back) * 256 + text[token - back]) * kWidth];
        std::transform(row, row + kWidth, out, out, std::plus<>());
      }
      squares = std::inner_product(out, out + kWidth, out, squares);
    }
  const float scale = static_cast<float>(kInputRms / std::sqrt(squares / static_cast<double>(embedded.size())));
  float *begin = static_cast<float *>(embedded.data());
  std::transform(begin, begin + embedded.size(), begin, [=](float x) { return x * scale; });
  return embedded;
}

/// The first `tokens` tokens of every head, as float64.
Tensor head(const Tensor &tensor, int64_t tokens) {
  const int64_t length = tensor.shape()[2];
  Tensor result(DType::f64, {1, kHeads, tokens, kWidth});
  for (int64_t i = 0; i < result.size(); ++i) {
    const int64_t entry = i % kWidth, token = i / kWidth % tokens, h = i / (kWidth * tokens);
    result.set(i, tensor.at((h * length + token) * kWidth + entry));
  }
  return result;
}

Parameters widen(const Parameters &parameters) {
  Parameters result;
  for (const Parameters::Entry &entry : parameters) {
    Tensor wide(DType::f64, entry.tensor.shape());
    for (int64_t i = 0; i < wide.size(); ++i)
      wide.set(i, entry.tensor.at(i));
    result.set(entry.name, std::move(wide));
  }
  return result;
}

double relativeRms(const Tensor &found, const Tensor &expected) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(found.at(i) - expected.at(i), 2);
    size += std::pow(expected.at(i), 2);
  }
  return std::sqrt(difference / size);
}

class Demo {
public:
  explicit Demo(const std::vector<uint8_t> &text)
      : threads(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))), q(embed(text, 1)),
        k(embed(text, 2)), v(embed(text, 3)), o(DType::f32, {1, kHeads, kLength, kWidth}) {}

  /// Compiles and runs `attention`, `repeats` times after a first time that counts only when it is the only one.
  Row measure(const std::string &label, const Spec &spec, const std::string &attention, int repeats) {
    progress(label + ": compiling");
    const Kernel kernel = compile(spec, attention, {.headDim = kWidth}).value();
    const Parameters parameters = kernel.initialParameters(kHeads, kSeed);

    char line[120];
    std::snprintf(line, sizeof line, "%s: compiled in %.0f ms; running over %lld tokens", label.c_str(),
                  kernel.compileMilliseconds(), static_cast<long long>(kLength));
    progress(line);
    Row row{.label = label, .compileMs = kernel.compileMilliseconds()};
    row.scratchMb = static_cast<double>(kernel.scratchBytes()) * threads / 1e6;
    time(kernel, parameters, repeats, row);

    progress(label + ": checking the first " + std::to_string(kChecked) + " rows against the reference");
    row.error = check(spec, attention, parameters);
    return row;
  }

  const int threads;

private:
  void time(const Kernel &kernel, const Parameters &parameters, int repeats, Row &row) {
    const double flops = 2 * kernel.necessaryMultiplyAdds(1, kHeads, kLength, kLength);
    std::vector<double> seconds, shares;
    for (int i = 0; i <= repeats; ++i) {
      const double before = bench::measurePeakGflops(threads, DType::f32);
      const auto start = std::chrono::steady_clock::now();
      kernel.forward({q.ref(), k.ref(), v.ref()}, parameters, o, {.threads = threads});
      const double elapsed = secondsSince(start);
      const double peak = (before + bench::measurePeakGflops(threads, DType::f32)) / 2;
      if (i == 0 && repeats > 0)
        continue;
      seconds.push_back(elapsed);
      shares.push_back(flops * 1e-9 / elapsed / peak);
    }
    row.seconds = median(seconds);
    row.shareOfPeak = median(shares);
  }

  /// The attentions are causal: their first rows depend on the first tokens only.
  double check(const Spec &spec, const std::string &attention, const Parameters &parameters) const {
    const Kernel reference =
        compile(spec, attention, {.target = Target::reference(), .headDim = kWidth, .dtype = DType::f64}).value();
    Tensor expected(DType::f64, {1, kHeads, kChecked, kWidth});
    const Tensor query = head(q, kChecked), key = head(k, kChecked), value = head(v, kChecked);
    reference.forward({query.ref(), key.ref(), value.ref()}, widen(parameters), expected, {.threads = threads});
    return relativeRms(head(o, kChecked), expected);
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  Tensor q, k, v, o;
};

void print(const std::vector<Row> &rows, const Row &softmax, int threads) {
  std::printf("\n%lld tokens, %lld heads of %lld, float32, %d threads\n\n", static_cast<long long>(kLength),
              static_cast<long long>(kHeads), static_cast<long long>(kWidth), threads);
  std::printf("%-18s %10s %12s %10s %10s %13s %12s\n", "attention", "compile", "tokens/s", "of peak", "error",
              "extra memory", "vs softmax");
  auto line = [&](const Row &row) {
    std::printf("%-18s %7.0f ms %12.0f %8.1f %% %10.1e %10.2f MB %10.1f x\n", row.label.c_str(), row.compileMs,
                kLength / row.seconds, 100 * row.shareOfPeak, row.error, row.scratchMb, softmax.seconds / row.seconds);
  };
  std::for_each(rows.begin(), rows.end(), line);
  line(softmax);
  std::printf("\nof peak: necessary multiply-adds, by the rate of a loop of multiply-adds in registers\n"
              "error: relative rms of the first %lld rows against the float64 reference\n"
              "extra memory: scratch of all threads; the features of all keys alone would be %.0f MB at 128 a token\n",
              static_cast<long long>(kChecked), static_cast<double>(kHeads * kLength * 128 * 4) / 1e6);
}

int run(const std::string &path) {
  const auto start = std::chrono::steady_clock::now();
  std::fprintf(stderr, "yaglom demo: %s\n", path.c_str());
  progress("embedding " + std::to_string(kLength) + " bytes");
  Demo demo(readText(path));

  std::vector<Row> rows;
  for (const Attention &a : kAttentions) {
    const Spec spec = Spec::parseFile(std::string(YAGLOM_SPECS_DIR "/") + a.file).value();
    rows.push_back(demo.measure(a.label, spec, a.name, 9));
  }
  const Spec softmax =
      Spec::parse("attention exact(Q; K, V) = softmax_attention(Q, K, V) with causal", "demo.phi").value();
  print(rows, demo.measure("softmax_attention", softmax, "exact", 0), demo.threads);
  std::printf("all of it took %.0f s\n", secondsSince(start));

  for (const Row &row : rows)
    if (!(row.error <= kTolerance)) {
      std::fprintf(stderr, "%s differs from the reference: %.1e\n", row.label.c_str(), row.error);
      return 1;
    }
  return 0;
}

} // namespace

int main(int argc, char **argv) try {
  if (argc > 2) {
    std::fprintf(stderr, "usage: yaglom-demo [FILE]\n");
    return 2;
  }
  return run(argc == 2 ? argv[1] : kDefaultText);
} catch (const std::exception &error) {
  std::fprintf(stderr, "yaglom-demo: %s\n", error.what());
  return 1;
}
