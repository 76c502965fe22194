// What gradients keep to: heads, batch mates and causality, masks, memory, points where a derivative has a corner.
// SPDX-License-Identifier: Apache-2.0
#include "support/Memory.h"
#include "tests/numeric/Golden.h"
#include "tests/numeric/GradientCase.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRows = 70;

Spec shipped(const std::string &name) {
  return Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + name + ".phi").value();
}

void poison(Tensor &tensor, int64_t row, double value) {
  const int64_t width = tensor.shape().size() == 4 ? tensor.shape()[3] : 1;
  for (int64_t i = 0; i < width; ++i)
    tensor.set(row * width + i, value);
}

/// Rows of (batch 0, head 0) whose entries differ by more than rounding, or are no longer finite.
std::vector<int64_t> changedRows(const Tensor &before, const Tensor &after) {
  const int64_t width = before.shape().size() == 4 ? before.shape()[3] : 1;
  const double scale = rms(valuesOf(before));
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < before.shape()[2]; ++row)
    for (int64_t i = 0; i < width; ++i)
      if (const double change = after.at(row * width + i) - before.at(row * width + i);
          !(std::fabs(change) <= 1e-12 * scale)) {
        rows.push_back(row);
        break;
      }
  return rows;
}

/// No row but those `allowed` has changed.
void checkChanges(const Gradients &before, const Gradients &after, const std::string &name,
                  const std::function<bool(int64_t)> &allowed) {
  for (const int64_t row : changedRows(before[name], after[name])) {
    INFO(name << " row " << row << " has changed");
    CHECK(allowed(row));
    if (!allowed(row))
      return;
  }
}

} // namespace

TEST_CASE("NaN in an input or a cotangent reaches no gradient of another head or batch mate", "[slow-on-emulator]") {
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions()) {
      const Kernel kernel = compiled(spec, name, options(DType::f32, 6, 4));
      const Data data = makeData(kernel, {2, 2, kRows}, DType::f32, 0.7);
      const Tensor grad = randomGrad(kernel, data.sizes, DType::f32);
      const Gradients before = backward(kernel, data, grad);
      for (std::size_t which = 0; which <= data.inputs.size(); ++which) {
        Data changed = data;
        Tensor changedGrad = grad;
        poison(which < data.inputs.size() ? changed.inputs[which] : changedGrad, 33, kNaN);
        const Gradients after = backward(kernel, changed, changedGrad);
        for (const std::string &input : data.names) {
          INFO(name << ": grad." << input);
          const std::vector<double> x = valuesOf(before["grad." + input]), y = valuesOf(after["grad." + input]);
          const auto item = static_cast<std::ptrdiff_t>(x.size() / 4);
          CHECK(std::equal(x.begin() + item, x.end(), y.begin() + item, [](double a, double b) { return same(a, b); }));
        }
      }
    }
  }
}

TEST_CASE("NaN in a causal attention reaches the gradients that mathematics says, and no others",
          "[slow-on-emulator]") {
  for (const char *file : {"linear_transformer", "performer", "flexformer_n", "retention", "softmax"}) {
    const Spec spec = shipped(file);
    const Kernel kernel = compiled(spec, spec.attentions()[0], options(DType::f64, 6, 4));
    const Data data = makeData(kernel, {1, 1, kRows}, DType::f64, 0.7);
    const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
    for (const int64_t interval : {0, 1})
      for (const int64_t token : fewerOnEmulator<int64_t>({0, 5, 31, 32, 69}, {5, 32})) {
        INFO(file << ", token " << token << ", residual " << interval);
        const Gradients before = backward(kernel, data, grad, 1, interval);
        const auto own = [&](int64_t row) { return row == token; };
        const auto upTo = [&](int64_t row) { return row <= token; };
        const auto from = [&](int64_t row) { return row >= token; };
        Tensor changedGrad = grad;
        poison(changedGrad, token, kNaN);
        Gradients after = backward(kernel, data, changedGrad, 1, interval);
        checkChanges(before, after, "grad.Q", own);
        checkChanges(before, after, "grad.K", upTo);
        checkChanges(before, after, "grad.V", upTo);
        for (const char *input : {"Q", "K", "V"}) {
          INFO("NaN in " << input);
          Data changed = data;
          poison(changed[input], token, kNaN);
          after = backward(kernel, changed, grad, 1, interval);
          checkChanges(before, after, "grad.Q", input[0] == 'Q' ? std::function<bool(int64_t)>(own) : from);
          if (input[0] == 'Q') {
            checkChanges(before, after, "grad.K", upTo);
            checkChanges(before, after, "grad.V", upTo);
          }
        }
      }
  }
}

TEST_CASE("gradients of nothing are zeros") {
  const Kernel kernel = compiled(shipped("flexformer_n"), "flexformer_n_attention", options(DType::f32, 6, 4));
  for (const Sizes sizes : {Sizes{0, 2, 5}, Sizes{1, 2, 0}}) {
    const Data data = makeData(kernel, sizes, DType::f32, 0.7);
    for (const int64_t interval : {0, 1}) {
      const Gradients gradients = backward(kernel, data, randomGrad(kernel, sizes, DType::f32), 1, interval);
      CHECK(gradients["grad.flexformer_n.W1"].shape() == data.parameters["flexformer_n.W1"].shape());
      for (const auto &entry : gradients)
        CHECK(rms(valuesOf(entry.tensor)) == 0);
    }
  }
}

TEST_CASE("a parameter without influence has zeros, and so has an input") {
  const std::string text = "map f(x: [d]) { param used: [] = 1  param unused: [3] = 2  let y = unused * 2 "
                           "return used * (elu(x) + 1) } map one(x: [d]) = x - x + 1 "
                           "attention a(Q; K, V) = linear(f(Q), one(K), V) with causal, normalize(eps = 1)";
  const Kernel kernel = compiled(text, "a", options(DType::f64, 4, 4));
  const Data data = makeData(kernel, {1, 2, 40}, DType::f64, 0.5);
  const Gradients gradients = backward(kernel, data, randomGrad(kernel, data.sizes, DType::f64));
  CHECK(valuesOf(gradients["grad.f.unused"]) == std::vector<double>(6, 0.0));
  CHECK(rms(valuesOf(gradients["grad.K"])) == 0);
  CHECK(rms(valuesOf(gradients["grad.f.used"])) > 0);
}

TEST_CASE("derivatives at corners are the reference's") {
  const struct {
    const char *body, *what;
  } cases[] = {{"param p: [] = 2 return relu(x)^p", "relu(x)^p at 0"},
               {"param p: [] = 0.5 return relu(x)^(1 + p)", "relu(x)^(1 + p) at 0"},
               {"return [|x|; 1]", "|x| at 0"},
               {"return [unit(x); 1]", "unit at 0"},
               {"return [max(x); 1]", "ties of max"},
               {"return max(x, 0) + min(x, 0) + 1", "ties of max and min"},
               {"return abs(x) + sign(x) + 1", "abs and sign at 0"},
               {"return elu(x) + softmax(x)", "equal entries of softmax"}};
  for (const auto &[body, what] : cases) {
    const std::string text = std::string("map f(x: [d]) { ") + body +
                             " } attention a(Q; K, V) = linear(f(Q), f(K), V) "
                             "with causal, normalize(clamp = 0.5)";
    const Spec spec = Spec::parse(text).value();
    const CompileOptions settings = options(DType::f64, 4, 3);
    const Kernel kernel = compiled(spec, "a", settings);
    Data data = makeData(kernel, {1, 1, 40}, DType::f64, 0.5);
    data.transform([](double x, int64_t row) { return row % 3 == 0 ? 0 : std::round(2 * x) / 2; });
    const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
    for (const int64_t interval : fewerOnEmulator<int64_t>({0, 1}, {0})) {
      INFO(what << ", residual " << interval);
      const Gradients found = backward(kernel, data, grad, 1, interval);
      for (const auto &entry : found)
        CHECK(countNonFinite(valuesOf(entry.tensor)) == 0);
      checkDirections(spec, "a", settings, data, grad, found, 1e-9);
    }
  }
}

TEST_CASE("masked keys have no gradient, whatever they hold, and a row without a key has none") {
  const std::string text =
      "attention a(Q; K, V, m: []) = linear(elu(Q) + 1, elu(K) + 1, V) with causal, normalize, mask = m "
      "attention s(Q; K, V, m: []) = softmax_attention(Q, K, V) with causal, mask = m";
  for (const char *name : {"a", "s"})
    for (const int64_t interval : {0, 1}) {
      const Kernel kernel = compiled(text, name, options(DType::f64, 4, 3));
      Data data = makeData(kernel, {1, 1, kRows}, DType::f64, 0.5);
      const auto masked = [](int64_t row) { return row < 5 || row % 7 == 3; };
      for (int64_t row = 0; row < kRows; ++row)
        data["m"].set(row, masked(row) ? 0 : 1);
      const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
      const Gradients clean = backward(kernel, data, grad, 1, interval);
      for (int64_t row = 0; row < kRows; ++row)
        if (masked(row)) {
          poison(data["K"], row, kNaN);
          poison(data["V"], row, kNaN);
        }
      const Gradients found = backward(kernel, data, grad, 1, interval);
      for (const char *gradient : {"grad.Q", "grad.K", "grad.V"}) {
        INFO(name << " " << gradient << ", residual " << interval);
        CHECK(relativeError(valuesOf(found[gradient]), valuesOf(clean[gradient])) < 1e-12);
        const int64_t width = found[gradient].shape()[3];
        for (int64_t row = 0; row < kRows; ++row)
          for (int64_t i = 0; i < width; ++i)
            if (gradient[5] == 'Q' ? row < 5 : masked(row))
              CHECK(found[gradient].at(row * width + i) == 0);
      }
    }
}

TEST_CASE("gradients under constant log decays of any strength are finite and equal the reference",
          "[slow-on-emulator]") {
  const std::string text = "attention a(Q; K, V, l: []) = linear(elu(Q) + 1, elu(K) + 1, V) with causal, normalize, "
                           "log_decay = l";
  const Spec spec = Spec::parse(text).value();
  const CompileOptions settings = options(DType::f64, 3, 2);
  const Kernel kernel = compiled(spec, "a", settings);
  for (const double decay : {0.0, -1e-3, -1.0, -20.0, -80.0, -std::numeric_limits<double>::infinity()})
    for (const int64_t interval : {0, 4}) {
      INFO("log decay " << decay << ", residual " << interval);
      for (const int64_t rows : {int64_t(200), fewerOnEmulator(8192, 300)}) {
        Data data = makeData(kernel, {1, 1, rows}, DType::f64, 0.5);
        data["l"] = Tensor(DType::f64, {1, 1, rows});
        for (int64_t row = 0; row < rows; ++row)
          data["l"].set(row, decay);
        const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
        const Gradients found = backward(kernel, data, grad, 1, interval);
        for (const auto &entry : found)
          CHECK(countNonFinite(valuesOf(entry.tensor)) == 0);
        if (rows == 200)
          checkDirections(spec, "a", settings, data, grad, found, 1e-9);
      }
    }
}

TEST_CASE("float32 gradients of gates near 0 equal the reference", "[slow-on-emulator]") {
  const std::string text = "attention a(Q; K, V, g: []) = linear(elu(Q) + 1, elu(K) + 1, V) with causal, decay = g "
                           "attention n(Q; K, V, g: []) = linear(exp(Q), exp(K), V) with causal, normalize, decay = g";
  const Spec spec = Spec::parse(text).value();
  for (const char *name : {"a", "n"})
    for (const double size : {0.5, 1e-2, 1e-4})
      for (const int64_t interval : {0, 1}) {
        INFO(name << ", gates of " << size << ", residual " << interval);
        const CompileOptions settings = options(DType::f32, 8, 4);
        const Kernel kernel = compiled(spec, name, settings);
        Data data = makeData(kernel, {1, 2, fewerOnEmulator(500, 100)}, DType::f32, 0.5);
        for (int64_t i = 0; i < data["g"].size(); ++i)
          data["g"].set(i, static_cast<float>((0.5 + data["g"].at(i) / 2) * size));
        const Tensor grad = randomGrad(kernel, data.sizes, DType::f32);
        const Gradients found = backward(kernel, data, grad, 1, interval);
        CompileOptions exact = settings;
        exact.dtype = DType::f64;
        const Gradients expected = backward(compiled(spec, name, exact), data, grad);
        for (const auto &entry : expected) {
          INFO(entry.name);
          CHECK(relativeError(valuesOf(found[entry.name]), valuesOf(entry.tensor), rms(valuesOf(expected["grad.V"]))) <
                1e-4);
        }
      }
}

TEST_CASE("a residual changes no bit of the output, and its interval none of the gradients", "[slow-on-emulator]") {
  const int64_t rows = fewerOnEmulator(200, 70);
  for (const char *file : {"flexformer_n", "rfa", "performer", "polaformer", "fska", "softmax"}) {
    const Spec spec = shipped(file);
    for (const std::string &name : spec.attentions()) {
      const Kernel kernel = compiled(spec, name, options(DType::f32, 6, 4));
      const Data data = makeData(kernel, {2, 2, rows}, DType::f32, 0.7);
      const Tensor grad = randomGrad(kernel, data.sizes, DType::f32);
      const std::vector<double> plain = run(kernel, data);
      std::vector<Tensor> inputs;
      std::vector<TensorRef> refs;
      for (const Tensor &input : data.inputs)
        inputs.push_back(toType(input, DType::f32));
      for (const Tensor &input : inputs)
        refs.push_back(input.ref());
      Parameters parameters;
      for (const auto &entry : data.parameters)
        parameters.set(entry.name, toType(entry.tensor, DType::f32));
      const Gradients every = backward(kernel, data, grad, 1, 1);
      for (const int64_t interval : fewerOnEmulator<int64_t>({1, 2, 3, 100}, {2, 100})) {
        INFO(name << ", interval " << interval);
        Residual residual(interval);
        Tensor output(DType::f32, {2, 2, rows, outputWidth(kernel)});
        kernel.forward(refs, parameters, output, {.residual = &residual});
        CHECK(same(valuesOf(output), plain));
        const Gradients some = backward(kernel, data, grad, 2, interval);
        for (const auto &entry : every)
          CHECK(same(valuesOf(entry.tensor), valuesOf(some[entry.name])));
      }
    }
  }
}

TEST_CASE("a residual holds a state every so many chunks") {
  const Kernel kernel =
      compiled(shipped("linear_transformer"), "linear_transformer", options(DType::f32, 8, 4, testedTarget(), 16));
  const Data data = makeData(kernel, {1, 2, 100}, DType::f32, 0.5);
  const Tensor grad = randomGrad(kernel, data.sizes, DType::f32);
  const int64_t state = (8 * 4 + 8) * 4;
  const auto bytes = [&](int64_t interval) {
    Residual residual(interval);
    std::vector<Tensor> inputs;
    for (const Tensor &input : data.inputs)
      inputs.push_back(toType(input, DType::f32));
    Tensor output(DType::f32, grad.shape());
    kernel.forward({inputs[0].ref(), inputs[1].ref(), inputs[2].ref()}, {}, output, {.residual = &residual});
    return residual.bytes();
  };
  CHECK(bytes(1) == 2 * 7 * state);
  CHECK(bytes(3) == 2 * 3 * state);
  CHECK(bytes(1000) == 2 * state);
}

// The emulator's own memory is not what a GPU takes.
TEST_CASE("backward takes the memory of the gradients and less than 10 MB", "[cpu-only]") {
  const Kernel kernel = compiled(shipped("flexformer_n"), "flexformer_n_attention", options(DType::f32, 64, 64));
  const Data small = makeData(kernel, {1, 1, 1}, DType::f32, 0.3);
  backward(kernel, small, randomGrad(kernel, small.sizes, DType::f32)); // compiles
  Tensor q(DType::f32, {1, 8, 4096, 64}), grad = q;
  for (int64_t i = 0; i < q.size(); ++i) {
    q.set(i, 0.3 * std::sin(0.1 * static_cast<double>(i)));
    grad.set(i, std::cos(0.3 * static_cast<double>(i)));
  }
  const Parameters parameters = kernel.initialParameters(8);
  resetPeak();
  const int64_t before = residentBytes();
  const Gradients gradients = kernel.backward({q.ref(), q.ref(), q.ref()}, parameters, grad.ref(), {.threads = 1});
  int64_t bytes = 0;
  for (const auto &entry : gradients)
    bytes += entry.tensor.size() * 4;
  CHECK(peakBytes() - before <= bytes + 10'000'000);
}

TEST_CASE("a residual that does not belong to the launch is refused") {
  const Kernel kernel = compiled(shipped("linear_transformer"), "linear_transformer", options(DType::f64, 4, 4));
  const Kernel other = compiled(shipped("retention"), "retention", options(DType::f64, 4, 4));
  Tensor x(DType::f64, {1, 2, 40, 4}), longer(DType::f64, {1, 2, 41, 4}), output = x;
  const auto refusal = [&](const Kernel &which, const Tensor &input, const Residual &residual) -> std::string {
    try {
      which.backward({input.ref(), input.ref(), input.ref()}, which.initialParameters(2), input.ref(),
                     {.residual = &residual});
    } catch (const Error &error) {
      return error.what();
    }
    return "accepted";
  };
  Residual residual;
  CHECK(refusal(kernel, x, residual) == "argument 'residual': no forward launch has filled it");
  kernel.forward({x.ref(), x.ref(), x.ref()}, {}, output, {.residual = &residual});
  CHECK(refusal(kernel, x, residual) == "accepted");
  CHECK(refusal(other, x, residual) == "argument 'residual': it was filled by another kernel");
  CHECK(refusal(kernel, longer, residual) ==
        "argument 'residual': expected one of a launch with B 1, H 2, N 41, M 41, found B 1, H 2, N 40, M 40");
  CHECK_THROWS_WITH(Residual(0), "a residual keeps a state every 1 or more chunks, found 0");
}

TEST_CASE("gradients go to the caller's memory, and accumulate adds to what is there") {
  const Kernel kernel = compiled(shipped("flexformer_n"), "flexformer_n_attention", options(DType::f64, 4, 4));
  const Data data = makeData(kernel, {1, 2, 50}, DType::f64, 0.5);
  const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
  std::vector<TensorRef> refs;
  for (const Tensor &input : data.inputs)
    refs.push_back(input.ref());
  const Gradients once = kernel.backward(refs, data.parameters, grad.ref());
  for (const bool exact : {false, true}) {
    const Kernel which = exact ? compiled(shipped("flexformer_n"), "flexformer_n_attention",
                                          options(DType::f64, 4, 4, Target::reference()))
                               : kernel;
    const Data small = makeData(kernel, {1, 1, 3}, DType::f64, 0.5);
    const Tensor smallGrad = randomGrad(kernel, small.sizes, DType::f64);
    std::vector<TensorRef> inputs;
    for (const Tensor &input : small.inputs)
      inputs.push_back(input.ref());
    const Gradients fresh = which.backward(inputs, small.parameters, smallGrad.ref());
    Gradients mine = fresh;
    std::vector<const void *> memory;
    for (const auto &entry : mine)
      memory.push_back(entry.tensor.data());
    which.backward(inputs, small.parameters, smallGrad.ref(), mine);
    for (const auto &entry : fresh)
      CHECK(valuesOf(entry.tensor) == valuesOf(mine[entry.name]));
    which.accumulate(inputs, small.parameters, smallGrad.ref(), mine);
    std::size_t place = 0;
    for (const auto &entry : mine) {
      CHECK(entry.tensor.data() == memory[place++]);
      for (int64_t i = 0; i < entry.tensor.size(); ++i)
        REQUIRE(entry.tensor.at(i) == 2 * fresh[entry.name].at(i));
    }
    inputs[0] = mine["grad.Q"].ref();
    CHECK_THROWS_WITH(which.backward(inputs, small.parameters, smallGrad.ref(), mine),
                      "argument 'grad.Q': overlaps an argument that is read");
  }
  Gradients sums;
  for (int i = 0; i < 3; ++i)
    kernel.accumulate(refs, data.parameters, grad.ref(), sums);
  for (const auto &entry : once)
    for (int64_t i = 0; i < entry.tensor.size(); ++i)
      REQUIRE(std::fabs(sums[entry.name].at(i) - 3 * entry.tensor.at(i)) <= 1e-15 * std::fabs(3 * entry.tensor.at(i)));
  sums.set("grad.Q", Tensor(DType::f64, {3}));
  CHECK_THROWS_WITH(kernel.accumulate(refs, data.parameters, grad.ref(), sums),
                    "argument 'grad.Q': a tensor of another shape or type than the gradient");
}
