// Features exp(f) g of any exponents: finite, and equal to the reference to the rounding of f.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <cmath>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

const std::string kMaps = R"(
map expmap(x: [d]) = exp(x)
map weighted(x: [d]) -> [2*d] = [exp(x) * (1.5 + tanh(x)); exp(-x)]
map common(x: [d]) -> [d] {
  param tau: [] = 0
  return exp(|x|^2 / exp(tau)) * (1.5 + tanh(x))
}
attention bare(Q; K, V)    = linear(expmap(Q), expmap(K), V) with causal, normalize
attention both(Q; K, V)    = linear(expmap(Q), expmap(K), V) with normalize
attention mixed(Q; K, V)   = linear(weighted(Q), weighted(K), V) with causal, normalize
attention query(Q; K, V)   = linear(expmap(Q), 1.5 + tanh(K), V) with causal, normalize
attention key(Q; K, V)     = linear(1.5 + tanh(Q), expmap(K), V) with causal, normalize
attention across(Q; K, V)  = linear(common(Q), expmap(K), V) with causal, normalize
attention across2(Q; K, V) = linear(expmap(Q), common(K), V) with causal, normalize
attention eps(Q; K, V)     = linear(expmap(Q), expmap(K), V) with causal, normalize(eps = 2)
attention clamp(Q; K, V)   = linear(expmap(Q), expmap(K), V) with causal, normalize(clamp = 3)
attention signed(Q; K, V)  = linear(expmap(Q), expmap(K), V) with causal, normalize(signed = 2)
attention none(Q; K, V)    = linear(expmap(Q), expmap(K), V) with causal
attention none_both(Q; K, V) = linear(common(Q), common(K), V)
attention fading(Q; K, V, g: []) = linear(expmap(Q), expmap(K), V) with causal, normalize, decay = g
attention fading_common(Q; K, V, g: []) = linear(common(Q), common(K), V) with causal, normalize, decay = g
attention fading_eps(Q; K, V, g: []) = linear(expmap(Q), expmap(K), V) with causal, normalize(eps = 2), decay = g
attention fading_none(Q; K, V, g: []) = linear(expmap(Q), expmap(K), V) with causal, decay = g
)";

const char *text(DType dtype) { return dtype == DType::f32 ? " f32" : " f64"; }

Spec example(const std::string &name) {
  return Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + name + ".phi").value();
}

/// Scales every token of `input` to the norm `radius(token)`.
template <typename F>
void setRadius(Tensor &tensor, F radius) {
  const int64_t rows = tensor.shape()[2], width = tensor.shape()[3];
  for (int64_t at = 0; at < tensor.size(); at += width) {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i)
      squares += tensor.at(at + i) * tensor.at(at + i);
    const double factor = radius(at / width % rows) / std::sqrt(squares);
    for (int64_t i = 0; i < width; ++i)
      tensor.set(at + i, factor * tensor.at(at + i));
  }
}

void scale(Tensor &tensor, double factor) {
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, factor * tensor.at(i));
}

void shift(Tensor &tensor, double by) {
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, tensor.at(i) + by);
}

/// Both element types: `prepare(data)` makes the inputs; exponents reach `exponent`.
template <typename F>
void compare(const Spec &spec, const std::string &attention, int64_t d, int64_t e, Sizes sizes, double exponent,
             F prepare) {
  const Kernel reference = compiled(spec, attention, options(DType::f64, d, e, Target::reference()));
  for (const DType dtype : {DType::f32, DType::f64}) {
    INFO(attention << text(dtype));
    Data data = makeData(reference, sizes, dtype, 1);
    prepare(data);
    roundTo(data, dtype);
    const std::vector<double> expected = run(reference, data);
    REQUIRE(countNonFinite(expected) == 0);
    REQUIRE(rms(expected) > 1e-3);
    const std::vector<double> found = run(compiled(spec, attention, options(dtype, d, e)), data);
    CHECK(countNonFinite(found) == 0);
    CHECK(relativeError(found, expected) < tolerance(dtype, sizes.rows, exponent));
  }
}

/// Frequencies small enough that no sum of cosines cancels.
void calm(Data &data, const std::string &map, double tau) {
  for (const char *name : {".W", ".W1", ".W2"})
    if (Tensor *tensor = data.parameters.find(map + name))
      scale(*tensor, 0.1);
  data.parameters[map + ".tau"].set(0, tau);
  for (int64_t i = 0; i < data.parameters[map + ".tau"].size(); ++i)
    data.parameters[map + ".tau"].set(i, tau);
}

} // namespace

TEST_CASE("performer at norms of 160 equals the reference") {
  for (const double spread : {0.0, 1.0, 10.0}) {
    INFO("norms differ by " << spread);
    compare(example("performer"), "performer", 64, 16, {1, 1, 100}, 2000, [&](Data &data) {
      Random random(1);
      for (const char *input : {"Q", "K"})
        setRadius(data[input], [&](int64_t) { return 160 + spread * random.uniform(-1, 1); });
    });
  }
}

TEST_CASE("flexformer with keys near one radius and exponents of 1000 equals the reference") {
  for (const char *name : {"flexformer_n", "flexformer_s"})
    compare(example(name), std::string(name) + "_attention", 16, 12, {1, 2, 100}, 1000, [&](Data &data) {
      calm(data, name, std::log(16.0 / 1000));
      Random random(1);
      // |x|^2 = 16 within a thousandth: gaps of order 1.
      for (const char *input : {"Q", "K"})
        setRadius(data[input], [&](int64_t) { return 4 * std::sqrt(1 + 0.001 * random.uniform(-1, 1)); });
    });
}

TEST_CASE("flexformer with one key scaled by 4 equals the reference", "[slow-on-emulator]") {
  for (const char *name : {"flexformer_n", "flexformer_s"})
    for (const int64_t token : {0, 3, 17, 31, 32, 50}) {
      INFO("token " << token);
      compare(example(name), std::string(name) + "_attention", 16, 12, {1, 1, 80}, 1000, [&](Data &data) {
        calm(data, name, std::log(16.0 / 60));
        for (const char *input : {"Q", "K"})
          setRadius(data[input], [&](int64_t) { return 4; });
        for (int64_t i = 0; i < 16; ++i)
          data["K"].set(token * 16 + i, 4 * data["K"].at(token * 16 + i));
      });
    }
}

TEST_CASE("a temperature that is nearly zero equals the reference") {
  for (const double tau : {-5.0, -8.0, -12.0, -20.0})
    for (const char *name : {"flexformer_n", "flexformer_s"}) {
      INFO("tau " << tau);
      const double exponent = 16 * std::exp(-tau);
      // float32 has no digit left of such exponents: it need only be finite.
      const Spec spec = example(name);
      const std::string attention = std::string(name) + "_attention";
      const Kernel reference = compiled(spec, attention, options(DType::f64, 16, 12, Target::reference()));
      for (const DType dtype : {DType::f32, DType::f64}) {
        Data data = makeData(reference, {1, 1, 70}, dtype, 1);
        calm(data, name, tau);
        for (const char *input : {"Q", "K"})
          setRadius(data[input], [](int64_t) { return 4; });
        roundTo(data, dtype);
        const std::vector<double> found = run(compiled(spec, attention, options(dtype, 16, 12)), data);
        CHECK(countNonFinite(found) == 0);
        if (dtype == DType::f64)
          CHECK(relativeError(found, run(reference, data)) < tolerance(dtype, 70, exponent));
      }
    }
}

TEST_CASE("exponents that jump by 200 within a chunk equal the reference", "[slow-on-emulator]") {
  for (const int64_t token : {1, 5, 16, 31, 32, 40}) {
    INFO("token " << token);
    compare(example("flexformer_n"), "flexformer_n_attention", 16, 12, {1, 1, 70}, 300, [&](Data &data) {
      calm(data, "flexformer_n", std::log(16.0 / 100));
      for (const char *input : {"Q", "K"})
        setRadius(data[input],
                  [&](int64_t row) { return row >= token && row % 3 == token % 3 ? 4 * std::sqrt(3.0) : 4; });
    });
    compare(example("performer"), "performer", 16, 12, {1, 1, 70}, 600, [&](Data &data) {
      // -|u|^2 / 2 = -|x|^2 / 8 rises from -600 to -400, and on to 0.
      for (const char *input : {"Q", "K"})
        setRadius(data[input], [&](int64_t row) {
          return row < token ? std::sqrt(4800.0) : row < token + 9 ? std::sqrt(3200.0) : 1;
        });
    });
    for (const char *attention : {"bare", "mixed", "key", "across2"})
      compare(Spec::parse(kMaps).value(), attention, 5, 3, {1, 1, 70}, 400, [&](Data &data) {
        Random random(1);
        for (int64_t i = 0; i < data["K"].size(); ++i)
          if (i / 5 >= token && random.below(3) == 0)
            data["K"].set(i, data["K"].at(i) + (std::string(attention) == "across2" ? 12 : 200));
      });
  }
}

TEST_CASE("exponents of each feature that span a thousand equal the reference", "[slow-on-emulator]") {
  const Spec spec = Spec::parse(kMaps).value();
  for (const char *attention : {"bare", "both", "mixed", "query", "key", "fading"})
    for (const double size : {30.0, 100.0, 300.0}) {
      INFO("size " << size);
      compare(spec, attention, 5, 3, {1, 2, 70}, 4 * size,
              [&](Data &data) { scale(data["Q"], size), scale(data["K"], size); });
    }
  for (const char *attention : {"across", "across2", "fading_common"})
    compare(spec, attention, 5, 3, {1, 2, 70}, 1000, [&](Data &data) { scale(data["Q"], 10), scale(data["K"], 10); });
}

TEST_CASE("exponents of queries and keys that cancel equal the reference under every normalisation",
          "[slow-on-emulator]") {
  const Spec spec = Spec::parse(kMaps).value();
  for (const char *attention : {"bare", "eps", "clamp", "signed", "none", "fading", "fading_eps", "fading_none"})
    for (const double size : {20.0, 200.0, 1000.0, 3000.0})
      for (const double sign : {1.0, -1.0}) {
        INFO("size " << sign * size);
        compare(spec, attention, 5, 3, {1, 2, 70}, size + 5,
                [&](Data &data) { shift(data["Q"], sign * size), shift(data["K"], -sign * size); });
      }
}

TEST_CASE("thresholds that features dwarf, and features that thresholds dwarf, equal the reference") {
  const Spec spec = Spec::parse(kMaps).value();
  for (const char *attention : {"eps", "clamp", "signed", "fading_eps"}) {
    compare(spec, attention, 5, 3, {1, 2, 70}, 600, [&](Data &data) { shift(data["Q"], 600); });
    compare(spec, attention, 5, 3, {1, 2, 70}, 600, [&](Data &data) { shift(data["K"], 600); });
    // Far below the threshold the output is tiny: the values are enlarged.
    compare(spec, attention, 5, 3, {1, 2, 70}, 60,
            [&](Data &data) { shift(data["K"], -60), scale(data["V"], std::exp(60.0)); });
    compare(spec, attention, 5, 3, {1, 2, 70}, 60,
            [&](Data &data) { shift(data["Q"], -60), scale(data["V"], std::exp(60.0)); });
  }
}

TEST_CASE("features far below anything representable equal the reference under a bare normaliser") {
  const Spec spec = Spec::parse(kMaps).value();
  for (const char *attention : {"bare", "both", "key", "fading"})
    for (const double size : {1e3, 1e5, 1e7, 1e8}) {
      INFO("size " << size);
      const Kernel reference = compiled(spec, attention, options(DType::f64, 5, 3, Target::reference()));
      Data data = makeData(reference, {1, 1, 70}, DType::f64, 1);
      shift(data["K"], -size);
      const std::vector<double> expected = run(reference, data);
      REQUIRE(countNonFinite(expected) == 0);
      REQUIRE(rms(expected) > 1e-3);
      CHECK(relativeError(run(compiled(spec, attention, options(DType::f64, 5, 3)), data), expected) <
            tolerance(DType::f64, 70, size));
    }
}
