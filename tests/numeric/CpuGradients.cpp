// Compiled gradients against the golden cases, and every attention of every spec against the reference's dual numbers.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Derivative.h"
#include "frontend/Builtins.h"
#include "support/Random.h"
#include "tests/numeric/CpuGolden.h"
#include "tests/numeric/GradientCase.h"
#include "tests/numeric/Tolerance.h"

#include "tests/unit/Catch.h"

#include <algorithm>
#include <cmath>

using namespace yaglom;
using namespace yaglom::tests;

TEST_CASE("compiled kernels reproduce every golden gradient", "[slow-on-emulator]") {
  int compared = 0, cases = 0;
  for (const std::string &file : goldenFiles()) {
    const Golden golden = loadGolden(file);
    ++cases;
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(file << (dtype == DType::f32 ? " f32" : " f64"));
      const double bound = dtype == DType::f32 ? 1e-4 : 1e-8;
      const Kernel kernel = kernelOf(golden, dtype);
      Parameters drawn;
      const Data data = dataOf(golden, kernel, drawn);
      // Of two neighbouring cases one goes from a residual in float32, the other in float64.
      const int64_t interval = (cases + (dtype == DType::f32 ? 1 : 0)) % 2;
      const Gradients gradients = backward(kernel, data, toTensor(golden.gradient, DType::f64), 1, interval);
      const double floor = (dtype == DType::f32 ? 1 : 0.01) * rms(golden.expected.at("grad.V").data);
      for (const auto &[name, expected] : golden.expected)
        if (name.starts_with("grad.")) {
          INFO(name);
          CHECK(relativeError(valuesOf(gradients[name]), expected.data, floor) < bound);
          ++compared;
        }
    }
  }
  CHECK(compared >= 800);
}

TEST_CASE("every attention of every spec has the reference's gradients", "[slow-on-emulator]") {
  int attentions = 0;
  for (const std::string &file : specFiles()) {
    const Spec spec = Spec::parseFile(file).value();
    for (const std::string &name : spec.attentions()) {
      ++attentions;
      CompileOptions settings = options(DType::f64, 3, 4);
      for (const char *dim : {"n", "m", "M"})
        if (spec.print().find(std::string("dim ") + dim + " = ") != std::string::npos)
          settings.dims[dim] = 4;
      CompileOptions exact = settings;
      exact.target = Target::reference();
      const Kernel kernel = compiled(spec, name, settings), reference = compiled(spec, name, exact);
      for (const int64_t rows : {7, 1, 2, 33}) {
        INFO(file << ": " << name << ", " << rows << " rows");
        Data data = makeData(reference, {rows < 7 ? 2 : 1, 1, rows}, DType::f64, 0.7, 5);
        reference.draw(data.parameters, 0); // by the parameters as they are now
        const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
        const Gradients found = backward(kernel, data, grad), expected = backward(reference, data, grad);
        const double floor = 0.01 * rms(valuesOf(expected["grad.V"]));
        for (const auto &entry : expected) {
          INFO(entry.name);
          CHECK(relativeError(valuesOf(found[entry.name]), valuesOf(entry.tensor), floor) < 1e-9);
        }
        if (expected.size() > 12)
          break; // the reference runs once for each entry of a network: one length is enough
      }
    }
  }
  CHECK(attentions >= 18);
}

TEST_CASE("gradients are the same bits for any number of threads", "[slow-on-emulator]") {
  for (const char *name : {"flexformer_n", "rfa", "softmax"}) {
    const Spec spec = Spec::parseFile(std::string(YAGLOM_SOURCE_DIR "/examples/specs/") + name + ".phi").value();
    const Kernel kernel = compiled(spec, spec.attentions().back(), options(DType::f32, 8, 8));
    const Data data = makeData(kernel, {2, 3, fewerOnEmulator(100, 40)}, DType::f32, 0.4, 3);
    const Tensor grad = randomGrad(kernel, data.sizes, DType::f32);
    const Gradients one = backward(kernel, data, grad, 1), many = backward(kernel, data, grad, 5);
    for (const auto &entry : one) {
      INFO(name << " " << entry.name);
      CHECK(same(valuesOf(entry.tensor), valuesOf(many[entry.name])));
    }
  }
}

TEST_CASE("what is provably zero is exactly zero") {
  // Under a bare normaliser a factor of the query row divides out, and one that is common to all keys.
  const std::string text =
      "map f(x: [d]) { param s: [] = 2  param sigma: [] = 3  return exp(s * x) * sigma / sqrt(d) } "
      "attention a(Q, g: []; K, V) = linear(g * f(Q), f(K), V) with causal, normalize";
  const Kernel kernel = compiled(text, "a", options(DType::f32, 4, 4));
  const Data data = makeData(kernel, {1, 2, 50}, DType::f32, 0.5, 3);
  const Gradients gradients = backward(kernel, data, randomGrad(kernel, data.sizes, DType::f32));
  for (const char *name : {"grad.g", "grad.f.sigma"})
    for (const double value : valuesOf(gradients[name]))
      CHECK(value == 0);
  CHECK(rms(valuesOf(gradients["grad.f.s"])) > 0);
}

TEST_CASE("gradients hold where exponents span the range of the type many times") {
  const std::string text = "map f(x: [d]) = exp(x) "
                           "attention a(Q; K, V) = linear(f(Q), f(K), V) with causal, normalize";
  const Kernel reference = compiled(text, "a", options(DType::f64, 3, 2, Target::reference()));
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Kernel kernel = compiled(text, "a", options(dtype, 3, 2));
    for (const double span : {1.0, 30.0, 300.0}) {
      INFO("span " << span << (dtype == DType::f32 ? " f32" : " f64"));
      const Data data = makeData(reference, {1, 1, 70}, dtype, span, 9);
      const Tensor grad = randomGrad(kernel, data.sizes, dtype);
      const Gradients found = backward(kernel, data, grad), expected = backward(reference, data, grad);
      const double floor = (dtype == DType::f32 ? 1 : 0.01) * rms(valuesOf(expected["grad.V"]));
      for (const auto &entry : expected) {
        INFO(entry.name);
        CHECK(relativeError(valuesOf(found[entry.name]), valuesOf(entry.tensor), floor) <
              (dtype == DType::f32 ? 1e-4 : 1e-9));
      }
    }
  }
}

TEST_CASE("a cotangent may have any strides") {
  const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/linear_transformer.phi").value();
  const Kernel kernel = compiled(spec, "linear_transformer", options(DType::f64, 4, 4));
  const Data data = makeData(kernel, {1, 2, 40}, DType::f64, 0.5, 3);
  std::vector<TensorRef> refs;
  for (const Tensor &input : data.inputs)
    refs.push_back(input.ref());
  const auto gradientOf = [&](const TensorRef &grad) {
    return valuesOf(kernel.backward(refs, data.parameters, grad)["grad.K"]);
  };
  // All ones, by stride 0.
  const double one = 1;
  Tensor ones(DType::f64, {1, 2, 40, 4});
  for (int64_t i = 0; i < ones.size(); ++i)
    ones.set(i, 1);
  CHECK(same(gradientOf({&one, {1, 2, 40, 4}, {0, 0, 0, 0}}), gradientOf(ones.ref())));
  // Stored the other way round.
  const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
  Tensor turned(DType::f64, {1, 2, 4, 40});
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t row = 0; row < 40; ++row)
      for (int64_t c = 0; c < 4; ++c)
        turned.set((h * 4 + c) * 40 + row, grad.at((h * 40 + row) * 4 + c));
  const TensorRef view{static_cast<const double *>(turned.data()), {1, 2, 40, 4}, {320, 160, 1, 40}};
  CHECK(same(gradientOf(view), gradientOf(grad.ref())));
}

TEST_CASE("compiled kernels reproduce every golden gradient of a loss", "[slow-on-emulator]") {
  int compared = 0;
  for (const std::string &file : goldenFiles()) {
    const Golden golden = loadGolden(file);
    for (const auto &[loss, value] : golden.expected) {
      if (!loss.starts_with("loss."))
        continue;
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Kernel kernel = kernelOf(golden, dtype);
        Parameters drawn;
        dataOf(golden, kernel, drawn);
        const Gradients gradients = kernel.lossGradient(loss.substr(5), drawn, 0);
        for (const auto &[name, expected] : golden.expected)
          if (name.starts_with("loss_grad.")) {
            INFO(file << " " << name << (dtype == DType::f32 ? " f32" : " f64"));
            CHECK(relativeError(valuesOf(gradients[name.substr(5)]), expected.data, 1e-3) <
                  (dtype == DType::f32 ? 1e-4 : 1e-8));
            ++compared;
          }
      }
    }
  }
  CHECK(compared >= 50);
}

TEST_CASE("gradients of losses reach what a mixture's samples were allocated from, and their weights") {
  const char *specs[] = {
      "sampler mix = mixture(components = 3) map f(x: [d]) { draw W: [4, d] ~ mix return exp(W @ x) } "
      "attention a(Q; K, V) = linear(f(Q), f(K), V) with causal, normalize loss r = kl(mix, gaussian, samples = 20)",
      "sampler mix = spectral_mixture(components = 3) "
      "map f(x: [d]) { draw (A, B): [4, d] ~ mix return [cos(A @ x); sin(B @ x)] } "
      "attention a(Q; K, V) = linear(f(Q), f(K), V) with causal loss r = kl(mix, mix, samples = 20)"};
  for (const char *text : specs) {
    const Spec spec = Spec::parse(text).value();
    const Kernel kernel = compile(spec, "a", options(DType::f64, 4, 2)).value();
    const Instance instance = instantiate(spec.file(), "a", {{"d", 4}, {"e", 2}}).value();
    const int64_t heads = 2;
    Parameters parameters = kernel.initialParameters(heads, 3);
    Random random(5);
    for (const TensorInfo &info : kernel.tensors())
      if (info.role == TensorRole::Parameter) {
        Tensor &tensor = parameters[info.name];
        for (int64_t i = 0; i < tensor.size(); ++i)
          tensor.set(i, tensor.at(i) + 0.3 * random.normal());
      }
    for (const auto &entry : kernel.noise(heads, 3))
      parameters.set(entry.name, entry.tensor);
    reference::Tensors<double> tensors;
    for (const auto &entry : parameters)
      tensors[entry.name] = reference::toArray(entry.tensor);
    const Gradients gradients = kernel.lossGradient("r", parameters, 3);
    CHECK(gradients.size() >= 3);
    const Kernel exact = compile(spec, "a", options(DType::f64, 4, 2, Target::reference())).value();
    const Gradients expected = exact.lossGradient("r", parameters, 3);
    CHECK(expected.size() == gradients.size());
    for (const auto &entry : expected) {
      INFO(entry.name);
      CHECK(relativeError(valuesOf(gradients[entry.name]), valuesOf(entry.tensor), 1e-3) < 1e-12);
    }
    for (const auto &entry : gradients) {
      INFO(text << ": " << entry.name);
      reference::Array<double> direction(entry.tensor.shape());
      double found = 0;
      for (std::size_t i = 0; i < direction.data.size(); ++i)
        found += entry.tensor.at(static_cast<int64_t>(i)) * (direction.data[i] = random.normal());
      const double expected = directionalLossDerivative(instance, tensors, heads, "r", entry.name.substr(5), direction);
      CHECK(std::fabs(found - expected) < 1e-9 * std::max(1.0, std::fabs(expected)));
    }
  }
}

TEST_CASE("every elementary function has the derivative of the reference's dual numbers") {
  int functions = 0;
  for (const Elementary &function : elementaryFunctions()) {
    const std::string name(function.name);
    const bool positive = name == "log" || name == "log1p" || name == "sqrt" || name == "rsqrt";
    for (const char *argument : {"u", "-u"}) {
      if (positive && argument[0] == '-')
        continue;
      const std::string call = name + "(" + argument + (function.minArgs == 2 ? ", u * u / 3)" : ")");
      INFO(call);
      const std::string text =
          "map f(x: [d]) { let u = x * x / 4 + 0.2 return " + call + " } attention a(Q; K, V) = f(Q)";
      const Kernel kernel = compiled(text, "a", options(DType::f64, 6, 6));
      const Kernel reference = compiled(text, "a", options(DType::f64, 6, 6, Target::reference()));
      const Data data = makeData(reference, {1, 1, 5}, DType::f64, 1, 7);
      const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
      CHECK(relativeError(valuesOf(backward(kernel, data, grad)["grad.Q"]),
                          valuesOf(backward(reference, data, grad)["grad.Q"]), 1e-300) < 1e-12);
      ++functions;
    }
  }
  CHECK(functions >= 30);
}
