// Decays, masks and normalisers against a recurrence in float64, the reference, and the compacted sequence.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr int64_t kD = 5, kE = 3;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const std::string kText = R"(
map elu1(x: [d]) = elu(x) + 1
map expmap(x: [d]) = exp(x)
attention log_constant(Q; K, V) { param a: [] = 0  return linear(elu1(Q), elu1(K), V) with causal, normalize, log_decay = a }
attention log_constant_sum(Q; K, V) { param a: [] = 0  return linear(elu1(Q), elu1(K), V) with causal, log_decay = a }
attention constant(Q; K, V) { param a: [] = 0  return linear(elu1(Q), elu1(K), V) with causal, normalize, decay = a }
attention constant_sum(Q; K, V) { param a: [] = 0  return linear(elu1(Q), elu1(K), V) with causal, decay = a }
attention log_each(Q; K, V, g: []) = linear(elu1(Q), elu1(K), V) with causal, normalize, log_decay = g
attention each(Q; K, V, g: []) = linear(elu1(Q), elu1(K), V) with causal, normalize, decay = g
attention each_sum(Q; K, V, g: []) = linear(elu1(Q), elu1(K), V) with causal, decay = g
attention each_exp(Q; K, V, g: []) = linear(expmap(Q), expmap(K), V) with causal, normalize, decay = g
attention each_signed(Q; K, V, g: []) = linear(Q, K, V) with causal, normalize(signed = 0.5), decay = g
)";

double elu1(double x) { return x > 0 ? x + 1 : std::exp(x); }

/// S_t = g_t S_(t-1) + phi(k_t) v_t^T, O_t = q_t S_t, over q_t z_t when normalised; phi = elu + 1, g by log(g).
std::vector<double> recurrence(const Data &given, bool normalized, const std::function<double(int64_t)> &decay) {
  Data data = given;
  const Tensor &Q = data["Q"], &K = data["K"], &V = data["V"];
  const int64_t rows = Q.shape()[2];
  std::vector<double> S(kD * kE), z(kD), O;
  for (int64_t t = 0; t < rows; ++t) {
    const double g = decay(t);
    std::vector<double> numerator(kE);
    double denominator = 0;
    for (int64_t f = 0; f < kD; ++f) {
      const double k = elu1(K.at(t * kD + f)), q = elu1(Q.at(t * kD + f));
      z[f] = (t ? g * z[f] : 0) + k;
      denominator += q * z[f];
      for (int64_t c = 0; c < kE; ++c) {
        double &s = S[f * kE + c];
        s = (t ? g * s : 0) + k * V.at(t * kE + c);
        numerator[c] += q * s;
      }
    }
    for (const double x : numerator)
      O.push_back(normalized ? (denominator == 0 ? 0 : x / denominator) : x);
  }
  return O;
}

const char *text(DType dtype) { return dtype == DType::f32 ? " f32" : " f64"; }

Kernel kernelOf(const std::string &attention, DType dtype, const std::string &source = kText) {
  return compiled(source, attention, options(dtype, kD, kE));
}

Kernel referenceOf(const std::string &attention, const std::string &source = kText) {
  return compiled(source, attention, options(DType::f64, kD, kE, Target::reference()));
}

/// The tokens of `data` that `keep` keeps.
Data compacted(const Data &data, const std::vector<bool> &keep) {
  Data result = data;
  result.sizes.rows = static_cast<int64_t>(std::count(keep.begin(), keep.end(), true));
  for (std::size_t n = 0; n < data.inputs.size(); ++n) {
    const Tensor &from = data.inputs[n];
    Shape shape = from.shape();
    const int64_t rows = shape[2], width = shape.size() == 4 ? shape[3] : 1;
    shape[2] = result.sizes.rows;
    Tensor to(DType::f64, shape);
    int64_t next = 0;
    for (int64_t i = 0; i < from.size(); ++i)
      if (keep[static_cast<std::size_t>(i / width % rows)])
        to.set(next++, from.at(i));
    result.inputs[n] = to;
  }
  return result;
}

std::vector<double> keptRows(const std::vector<double> &output, int64_t width, const std::vector<bool> &keep) {
  std::vector<double> result;
  const auto rows = static_cast<int64_t>(keep.size());
  for (std::size_t i = 0; i < output.size(); ++i)
    if (keep[i / static_cast<std::size_t>(width) % static_cast<std::size_t>(rows)])
      result.push_back(output[i]);
  return result;
}

} // namespace

TEST_CASE("constant decays over many tokens equal the recurrence", "[slow-on-emulator]") {
  const int64_t rows = fewerOnEmulator(8192, 300);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const bool normalized : {true, false})
      for (const double a : {0.0, -1e-3, -1.0, -20.0, -80.0, -700.0, -1e6, -kInf, 1e-3, 0.01}) {
        INFO("log decay " << a << text(dtype) << (normalized ? " normalized" : ""));
        const Kernel kernel = kernelOf(normalized ? "log_constant" : "log_constant_sum", dtype);
        Data data = makeData(kernel, {1, 1, rows}, dtype, 1);
        const std::string name = normalized ? "log_constant.a" : "log_constant_sum.a";
        data.parameters[name].set(0, a);
        roundTo(data, dtype);
        const double rounded = data.parameters[name].at(0);
        const std::vector<double> expected = recurrence(data, normalized, [&](int64_t) { return std::exp(rounded); });
        const std::vector<double> found = run(kernel, data);
        CHECK(countNonFinite(found) == 0);
        CHECK(relativeError(found, expected) < tolerance(dtype, rows));

        const Kernel linear = kernelOf(normalized ? "constant" : "constant_sum", dtype);
        Data same = data;
        same.parameters = {};
        Tensor g = data.parameters[name];
        g.set(0, std::exp(rounded));
        same.parameters.set(normalized ? "constant.a" : "constant_sum.a", g);
        roundTo(same, dtype);
        const double gamma = same.parameters[normalized ? "constant.a" : "constant_sum.a"].at(0);
        CHECK(relativeError(run(linear, same), recurrence(same, normalized, [&](int64_t) { return gamma; })) <
              tolerance(dtype, rows));
      }
}

TEST_CASE("decays of each token with zeros over many tokens equal the recurrence", "[slow-on-emulator]") {
  const int64_t rows = fewerOnEmulator(8192, 300);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double zeros : {0.0, 0.01, 0.3, 1.0})
      for (const double least : {1e-30, 0.0, 0.5, 0.99}) {
        INFO("zeros " << zeros << ", decays from " << least << text(dtype));
        for (const char *name : {"each", "each_sum"}) {
          const Kernel kernel = kernelOf(name, dtype);
          Data data = makeData(kernel, {1, 1, rows}, dtype, 1);
          Random random(7);
          for (int64_t i = 0; i < rows; ++i)
            data["g"].set(i, random.uniform() < zeros ? 0
                             : least == 1e-30         ? std::exp(random.uniform(-70, 0))
                                                      : random.uniform(least, 1));
          roundTo(data, dtype);
          const Tensor g = data["g"];
          const std::vector<double> expected =
              recurrence(data, std::string(name) == "each", [&](int64_t t) { return g.at(t); });
          const std::vector<double> found = run(kernel, data);
          CHECK(countNonFinite(found) == 0);
          CHECK(relativeError(found, expected) < tolerance(dtype, rows));
        }
      }
}

TEST_CASE("log decays of each token with minus infinity equal the recurrence") {
  constexpr int64_t kRows = 3000;
  for (const DType dtype : {DType::f32, DType::f64}) {
    INFO(text(dtype));
    const Kernel kernel = kernelOf("log_each", dtype);
    Data data = makeData(kernel, {1, 1, kRows}, dtype, 1);
    Random random(7);
    for (int64_t i = 0; i < kRows; ++i)
      data["g"].set(i, random.below(50) == 0   ? -kInf
                       : random.below(20) == 0 ? -random.uniform(0, 500)
                                               : -random.uniform());
    roundTo(data, dtype);
    const Tensor g = data["g"];
    const std::vector<double> expected = recurrence(data, true, [&](int64_t t) { return std::exp(g.at(t)); });
    CHECK(relativeError(run(kernel, data), expected) < tolerance(dtype, kRows));
  }
}

TEST_CASE("a decay above 1 grows") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double g : {1.001, 1.05, 2.0, 30.0}) {
      const int64_t rows = g > 1.1 ? 200 : 8192;
      INFO("decay " << g << text(dtype));
      const Kernel kernel = kernelOf("constant", dtype);
      Data data = makeData(kernel, {1, 1, rows}, dtype, 1);
      data.parameters["constant.a"].set(0, g);
      roundTo(data, dtype);
      const double gamma = data.parameters["constant.a"].at(0);
      const std::vector<double> found = run(kernel, data);
      CHECK(countNonFinite(found) == 0);
      CHECK(relativeError(found, recurrence(data, true, [&](int64_t) { return gamma; })) < tolerance(dtype, rows));
    }
}

TEST_CASE("a negative decay gives NaN from there on, only in its head") {
  constexpr int64_t kRows = 80;
  for (const char *name : {"each", "each_sum", "each_exp", "each_signed"})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = kernelOf(name, dtype), reference = referenceOf(name);
      const Data data = makeData(kernel, {2, 2, kRows}, dtype, 1);
      const std::vector<double> before = run(kernel, data);
      for (const int64_t token : {1, 15, 16, 31, 32, 40, 79}) {
        INFO(name << text(dtype) << " token " << token);
        Data changed = data;
        changed["g"].set(kRows + token, -0.5); // batch 0, head 1
        const std::vector<double> after = run(kernel, changed);
        bool right = true;
        for (std::size_t i = 0; i < after.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / kE, item = row / kRows;
          right &= item == 1 && row % kRows >= token ? std::isnan(after[i]) : same(before[i], after[i]);
        }
        CHECK(right);
        const std::vector<double> expected = run(reference, changed);
        bool agree = true;
        for (std::size_t i = 0; i < after.size(); ++i)
          agree &= std::isnan(after[i]) == std::isnan(expected[i]);
        CHECK(agree);
      }
    }
}

namespace {

const std::string kMasked = R"(
map elu1(x: [d]) = elu(x) + 1
map expmap(x: [d]) = exp(x)
attention plain(Q; K, V, m: []) = linear(elu1(Q), elu1(K), V) with causal, normalize, mask = m
attention sums(Q; K, V, m: []) = linear(Q, K, V) with causal, mask = m
attention both(Q; K, V, m: []) = linear(elu1(Q), elu1(K), V) with normalize, mask = m
attention exponents(Q; K, V, m: []) = linear(expmap(Q), expmap(K), V) with causal, normalize, mask = m
attention exponents_both(Q; K, V, m: []) = linear(expmap(Q), expmap(K), V) with normalize, mask = m
attention decays(Q; K, V, m: [], g: []) = linear(elu1(Q), elu1(K), V) with causal, normalize, mask = m, decay = g
attention decays_sum(Q; K, V, m: [], g: []) = linear(expmap(Q), expmap(K), V) with causal, mask = m, decay = g
attention added(Q; K, V, m: []) = linear(expmap(Q), expmap(K), V) with causal, normalize(eps = 1), mask = m
attention soft(Q; K, V, m: []) = softmax_attention(Q, K, V) with causal, mask = m
attention soft_both(Q; K, V, m: []) = softmax_attention(Q, K, V) with mask = m
)";

const std::vector<std::string> kMaskedNames = {"plain",  "sums",       "both",  "exponents", "exponents_both",
                                               "decays", "decays_sum", "added", "soft",      "soft_both"};

} // namespace

TEST_CASE("padding left, right and in the middle equals the compacted sequence, whatever the masked keys hold",
          "[slow-on-emulator]") {
  constexpr int64_t kRows = 100;
  const auto patterns = {
      std::function([](int64_t t) { return t >= 40; }),           std::function([](int64_t t) { return t < 50; }),
      std::function([](int64_t t) { return t < 20 || t >= 77; }), std::function([](int64_t t) { return t % 3 != 1; }),
      std::function([](int64_t t) { return t == 37; }),
  };
  for (const std::string &name : kMaskedNames)
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = kernelOf(name, dtype, kMasked);
      int number = 0;
      for (const auto &pattern : patterns)
        for (const double garbage : {1.0, kNaN, kInf, -kInf}) {
          INFO(name << text(dtype) << " pattern " << number++ / 4 << " masked keys hold " << garbage);
          Data data = makeData(kernel, {1, 2, kRows}, dtype, 1);
          std::vector<bool> keep(kRows);
          for (int64_t t = 0; t < kRows; ++t)
            keep[static_cast<std::size_t>(t)] = pattern(t);
          for (const std::string &input : data.names)
            if (input != "Q")
              for (int64_t i = 0; i < data[input].size(); ++i) {
                const int64_t width = input == "K" ? kD : input == "V" ? kE : 1;
                const bool kept = keep[static_cast<std::size_t>(i / width % kRows)];
                if (input == "m")
                  data["m"].set(i, kept ? (i % 2 ? 1 : -0.25) : i % 2 ? 0.0 : -0.0);
                else if (!kept)
                  data[input].set(i, garbage);
              }
          const std::vector<double> found = keptRows(run(kernel, data), kE, keep);
          const std::vector<double> expected = run(kernel, compacted(data, keep));
          CHECK(countNonFinite(found) == 0);
          CHECK(relativeError(found, expected) < tolerance(dtype, kRows));
        }
    }
}

TEST_CASE("a row without a key is 0", "[slow-on-emulator]") {
  constexpr int64_t kRows = 70;
  for (const std::string &name : kMaskedNames)
    for (const DType dtype : {DType::f32, DType::f64})
      for (const double garbage : {1.0, kNaN}) {
        INFO(name << text(dtype) << " keys hold " << garbage);
        const Kernel kernel = kernelOf(name, dtype, kMasked);
        Data data = makeData(kernel, {1, 2, kRows}, dtype, 1);
        for (int64_t i = 0; i < data["m"].size(); ++i)
          data["m"].set(i, 0);
        for (const char *input : {"K", "V"})
          for (int64_t i = 0; i < data[input].size(); ++i)
            data[input].set(i, garbage);
        bool zero = true;
        for (const double x : run(kernel, data))
          zero &= x == 0;
        CHECK(zero);
        // The first key that takes part makes the first row that is not 0.
        data = makeData(kernel, {1, 1, kRows}, dtype, 1);
        for (int64_t i = 0; i < kRows; ++i)
          data["m"].set(i, i >= 40);
        const std::vector<double> output = run(kernel, data);
        if (name.find("both") == std::string::npos) {
          for (int64_t i = 0; i < 40 * kE; ++i)
            zero &= output[static_cast<std::size_t>(i)] == 0;
          CHECK(zero);
        }
        CHECK(output[40 * kE] != 0);
      }
}

TEST_CASE("every form of normalize equals the reference where denominators vanish, are tiny, or change sign") {
  const std::string source = R"(
attention bare(Q; K, V) = linear(Q, K, V) with causal, normalize
attention eps(Q; K, V) = linear(relu(Q), relu(K), V) with causal, normalize(eps = 0.001)
attention clamp(Q; K, V) = linear(Q, K, V) with causal, normalize(clamp = 0.5)
attention signed(Q; K, V) = linear(Q, K, V) with causal, normalize(signed = 0.5)
attention bare_both(Q; K, V) = linear(Q, K, V) with normalize
attention signed_both(Q; K, V) = linear(Q, K, V) with normalize(signed = 0.5)
attention clamp_both(Q; K, V) = linear(Q, K, V) with normalize(clamp = 0.5)
attention cosines(Q; K, V) = linear([cos(Q); sin(Q)], [cos(K); sin(K)], V) with causal, normalize(signed = 0.001)
)";
  for (const char *name : {"bare", "eps", "clamp", "signed", "bare_both", "signed_both", "clamp_both", "cosines"}) {
    const Kernel reference = referenceOf(name, source);
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(name << text(dtype));
      const Kernel kernel = kernelOf(name, dtype, source);
      Data data = makeData(kernel, {1, 2, 90}, dtype, 1);
      // Integers: sums are exact in both types, so that denominators are exactly 0 in both.
      for (const char *input : {"Q", "K", "V"})
        for (int64_t i = 0; i < data[input].size(); ++i)
          data[input].set(i, std::round(2 * data[input].at(i)) / 4);
      for (int64_t i = 0; i < kD; ++i)
        data["Q"].set(20 * kD + i, 0);
      const std::vector<double> expected = run(reference, data), found = run(kernel, data);
      CHECK(countNonFinite(found) == 0);
      CHECK(relativeError(found, expected) < tolerance(dtype, 90) * (std::string(name) == "cosines" ? 20 : 1));
      for (int64_t c = 0; c < kE; ++c)
        if (std::string(name) != "cosines")
          CHECK(found[static_cast<std::size_t>(20 * kE + c)] == 0);
    }
  }
}
