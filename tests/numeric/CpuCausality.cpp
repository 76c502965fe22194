// What comes later, or elsewhere, changes no bit: later tokens, other heads, batch mates.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/CpuCase.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Calls `visit(kernel, name)` for every attention of every spec, in both element types, compiled for the host.
void forEveryAttention(int64_t d, int64_t e, const std::function<void(const Kernel &, const std::string &)> &visit) {
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions())
      for (const DType dtype : {DType::f32, DType::f64}) {
        INFO(name << (dtype == DType::f32 ? " f32" : " f64"));
        visit(compiled(spec, name, options(dtype, d, e)), name);
      }
  }
}

/// First row up to `last` of any (batch, head) whose bits differ; -1 when there is none.
int64_t firstChange(const std::vector<double> &x, const std::vector<double> &y, int64_t rows, int64_t last,
                    int64_t width) {
  const auto items = static_cast<int64_t>(x.size()) / (rows * width);
  for (int64_t row = 0; row <= last; ++row)
    for (int64_t item = 0; item < items; ++item)
      for (int64_t column = 0; column < width; ++column) {
        const auto at = static_cast<std::size_t>((item * rows + row) * width + column);
        if (!same(x[at], y[at]))
          return row;
      }
  return -1;
}

/// Sets token `row` of (batch 0, head 0) of an input; all of it, or one column.
void poison(Data &data, const std::string &name, int64_t row, double value, int64_t column = -1) {
  Tensor &tensor = data[name];
  const int64_t width = tensor.shape().size() == 4 ? tensor.shape()[3] : 1;
  for (int64_t i = 0; i < width; ++i)
    if (column < 0 || column == i)
      tensor.set(row * width + i, value);
}

/// A key's exponents are |x|^2 / exp(tau): `rows` of Q and K are scaled so that they are about these.
void setExponents(Data &data, const std::vector<double> &exponents, double tau) {
  for (const char *name : {"Q", "K"}) {
    Tensor &tensor = data[name];
    const int64_t rows = tensor.shape()[2], width = tensor.shape()[3];
    for (int64_t at = 0; at < tensor.size(); at += width) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i)
        squares += tensor.at(at + i) * tensor.at(at + i);
      const double factor = std::sqrt(exponents[static_cast<std::size_t>(at / width % rows)] * std::exp(tau) / squares);
      for (int64_t i = 0; i < width; ++i)
        tensor.set(at + i, factor * tensor.at(at + i));
    }
  }
}

void fill(Tensor &tensor, double value) {
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, value);
}

} // namespace

TEST_CASE("inputs after a token change no bit up to it in any causal attention", "[slow-on-emulator]") {
  constexpr int64_t kRows = 100;
  const auto lasts = fewerOnEmulator<int64_t>({0, 7, 15, 16, 31, 32, 47, 63, 64, 70, 95, 98}, {0, 31, 32, 63, 98});
  const auto factors = fewerOnEmulator<double>({1000.0, -1000.0, 1e30, 0.0}, {-1000.0, 1e30});
  int attentions = 0;
  forEveryAttention(6, 4, [&](const Kernel &kernel, const std::string &) {
    if (!isCausal(kernel))
      return;
    ++attentions;
    const Data data = makeData(kernel, {1, 2, kRows}, kernel.dtype(), 1);
    const std::vector<double> before = run(kernel, data);
    CHECK(countNonFinite(before) == 0);
    for (const int64_t last : lasts)
      for (const double factor : factors) {
        INFO("after " << last << " times " << factor);
        Data changed = data;
        changed.transform([&](double x, int64_t row) { return row > last ? factor * x : x; });
        CHECK(firstChange(before, run(kernel, changed), kRows, last, outputWidth(kernel)) == -1);
      }
  });
  CHECK(attentions >= 30);
}

TEST_CASE("a jump of exponents changes no bit before it", "[slow-on-emulator]") {
  constexpr int64_t kRows = 100;
  for (const char *name : {"flexformer_n", "flexformer_s", "performer"}) {
    const Spec spec = Spec::parseFile(std::string(YAGLOM_SOURCE_DIR "/examples/specs/") + name + ".phi").value();
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = compiled(spec, spec.attentions()[0], options(dtype, 8, 5));
      Data data = makeData(kernel, {1, 2, kRows}, dtype, 0.35);
      const double tau = -3;
      if (Tensor *tensor = data.parameters.find(std::string(name) + ".tau"))
        fill(*tensor, tau);
      std::vector<double> exponents(kRows);
      Random random(3);
      for (double &x : exponents)
        x = random.uniform(0, 5);
      setExponents(data, exponents, tau);
      roundTo(data, dtype);
      const std::vector<double> before = run(kernel, data);
      for (const int64_t last :
           fewerOnEmulator<int64_t>({0, 3, 15, 16, 20, 31, 32, 50, 62, 63, 90}, {0, 15, 31, 32, 63}))
        for (const double jump : fewerOnEmulator<double>({60.0, 200.0, 900.0, 5000.0}, {200.0, 5000.0})) {
          INFO(name << (dtype == DType::f32 ? " f32" : " f64") << " jump by " << jump << " after " << last);
          std::vector<double> jumping = exponents;
          for (auto i = static_cast<std::size_t>(last + 1); i < jumping.size(); i += 3)
            jumping[i] += jump;
          Data changed = data;
          setExponents(changed, jumping, tau);
          roundTo(changed, dtype);
          // Rescaling rounds: what stands before is taken over as it was.
          for (const char *input : {"Q", "K"})
            for (int64_t i = 0; i < changed[input].size(); ++i)
              if (i / 8 % kRows <= last)
                changed[input].set(i, data[input].at(i));
          CHECK(firstChange(before, run(kernel, changed), kRows, last, outputWidth(kernel)) == -1);
        }
    }
  }
}

TEST_CASE("NaN and infinity at a token reach no earlier row, no other head and no batch mate", "[slow-on-emulator]") {
  constexpr int64_t kRows = 70;
  forEveryAttention(6, 4, [&](const Kernel &kernel, const std::string &) {
    const Data data = makeData(kernel, {2, 2, kRows}, kernel.dtype(), 1);
    const std::vector<double> before = run(kernel, data);
    const int64_t width = outputWidth(kernel), item = kRows * width;
    for (const std::string &input : data.names)
      for (const int64_t token : fewerOnEmulator<int64_t>({0, 5, 16, 31, 32, 69}, {5, 32}))
        for (const double value : fewerOnEmulator<double>({kNaN, kInf, -kInf}, {kNaN, -kInf})) {
          INFO(input << " at " << token << " is " << value);
          Data changed = data;
          poison(changed, input, token, value);
          const std::vector<double> after = run(kernel, changed);
          CHECK(std::equal(before.begin() + item, before.end(), after.begin() + item,
                           [](double x, double y) { return same(x, y); }));
          if (isCausal(kernel))
            CHECK(firstChange({before.begin(), before.begin() + item}, {after.begin(), after.begin() + item}, kRows,
                              token - 1, width) == -1);
        }
  });
}

TEST_CASE("NaN in a query stays in its row", "[slow-on-emulator]") {
  constexpr int64_t kRows = 70;
  forEveryAttention(6, 4, [&](const Kernel &kernel, const std::string &) {
    const Data data = makeData(kernel, {1, 1, kRows}, kernel.dtype(), 1);
    const std::vector<double> before = run(kernel, data);
    const int64_t width = outputWidth(kernel);
    for (const int64_t token : {0, 5, 16, 31, 32, 69}) {
      INFO("at " << token);
      Data changed = data;
      poison(changed, "Q", token, kNaN);
      const std::vector<double> after = run(kernel, changed);
      for (int64_t i = 0; i < kRows * width; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i / width == token ? !std::isnan(after[at]) : !same(before[at], after[at])) {
          INFO("row " << i / width << " column " << i % width << ": " << before[at] << " became " << after[at]);
          FAIL_CHECK();
          break;
        }
      }
    }
  });
}

TEST_CASE("NaN in a key reaches its own and all later rows") {
  constexpr int64_t kRows = 70;
  for (const char *name : {"linear_transformer", "performer", "flexformer_n", "retention", "softmax"}) {
    const Spec spec = Spec::parseFile(std::string(YAGLOM_SOURCE_DIR "/examples/specs/") + name + ".phi").value();
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = compiled(spec, spec.attentions()[0], options(dtype, 6, 4));
      const Data data = makeData(kernel, {1, 1, kRows}, dtype, 1);
      const std::vector<double> before = run(kernel, data);
      for (const int64_t token : {0, 5, 16, 31, 32, 69}) {
        INFO(name << " at " << token);
        Data changed = data;
        poison(changed, "K", token, kNaN);
        const std::vector<double> after = run(kernel, changed);
        CHECK(firstChange(before, after, kRows, token - 1, 4) == -1);
        CHECK(countNonFinite(after) == (kRows - token) * 4);
      }
    }
  }
}

TEST_CASE("NaN in a column of a value reaches that column of its own and all later rows, and nothing else",
          "[slow-on-emulator]") {
  constexpr int64_t kRows = 70;
  for (const char *name : {"linear_transformer", "performer", "flexformer_n", "retention", "softmax"}) {
    const Spec spec = Spec::parseFile(std::string(YAGLOM_SOURCE_DIR "/examples/specs/") + name + ".phi").value();
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Kernel kernel = compiled(spec, spec.attentions()[0], options(dtype, 6, 4));
      const Data data = makeData(kernel, {1, 1, kRows}, dtype, 1);
      const std::vector<double> before = run(kernel, data);
      for (const int64_t token : {0, 5, 16, 31, 32, 69})
        for (const double value : {kNaN, kInf}) {
          INFO(name << (dtype == DType::f32 ? " f32" : " f64") << " at " << token << " is " << value);
          Data changed = data;
          poison(changed, "V", token, value, 2);
          const std::vector<double> after = run(kernel, changed);
          for (int64_t i = 0; i < kRows * 4; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const bool reached = i / 4 >= token && i % 4 == 2;
            if (reached ? std::isfinite(after[at]) : !same(before[at], after[at])) {
              INFO("row " << i / 4 << " column " << i % 4 << ": " << before[at] << " became " << after[at]);
              FAIL_CHECK();
              break;
            }
          }
        }
    }
  }
}
