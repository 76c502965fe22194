// Gradients of every attention against the reference along random directions, at lengths on both sides of a chunk, with
// and without a residual.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/GradientCase.h"

#include "tests/unit/Catch.h"

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr double kBound = 1e-9;

struct Widths {
  int64_t d, e, width; ///< width: of the features, where the spec has a dim for it
  int64_t interval;    ///< of the residual, 0 for none
  std::vector<int64_t> lengths;
};

CompileOptions optionsFor(const Spec &spec, const Widths &widths, DType dtype = DType::f64) {
  CompileOptions settings = options(dtype, widths.d, widths.e);
  for (const char *dim : {"n", "m", "M"})
    if (spec.print().find(std::string("dim ") + dim + " = ") != std::string::npos)
      settings.dims[dim] = widths.width;
  return settings;
}

int checkSpec(const std::string &file) {
  const Widths all[] = {{5, 4, 6, 0, fewerOnEmulator<int64_t>({1, 7, 65}, {1, 33})},
                        {7, 2, 10, 2, fewerOnEmulator<int64_t>({2, 33, 130}, {65})}};
  const Spec spec = Spec::parseFile(file).value();
  for (const std::string &name : spec.attentions())
    for (const Widths &widths : all) {
      const CompileOptions settings = optionsFor(spec, widths);
      const Kernel kernel = compiled(spec, name, settings);
      for (const int64_t rows : widths.lengths) {
        INFO(file << ": " << name << ", " << rows << " rows, residual " << widths.interval);
        Data data = makeData(kernel, {rows < 33 ? 2 : 1, 2, rows}, DType::f64, 0.7, 5);
        kernel.draw(data.parameters, 0);
        const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
        checkDirections(spec, name, settings, data, grad, backward(kernel, data, grad, 1, widths.interval), kBound);
      }
    }
  return static_cast<int>(spec.attentions().size());
}

} // namespace

TEST_CASE("every attention of every spec has the reference's gradients along random directions", "[slow-on-emulator]") {
  int attentions = 0;
  for (const std::string &file : specFiles())
    attentions += checkSpec(file);
  CHECK(attentions >= 18);
}

TEST_CASE("every option of linear and softmax_attention has the reference's gradients along random directions",
          "[slow-on-emulator]") {
  CHECK(checkSpec(YAGLOM_SOURCE_DIR "/tests/golden/options.phi") >= 14);
}

TEST_CASE("gradients equal the reference at every length around a chunk", "[slow-on-emulator]") {
  for (const char *name : {"linear_transformer", "performer"}) {
    const Spec spec = Spec::parseFile(std::string(YAGLOM_SOURCE_DIR "/examples/specs/") + name + ".phi").value();
    const Widths widths{4, 3, 5, 0, {}};
    for (const int64_t interval : {0, 1, 3}) {
      const CompileOptions settings = optionsFor(spec, widths);
      const Kernel kernel = compiled(spec, name, settings);
      for (const int64_t rows : {3, 15, 16, 17, 63, 64, 100, 127, 129, 400}) {
        INFO(name << ", " << rows << " rows, residual " << interval);
        Data data = makeData(kernel, {1, 1, rows}, DType::f64, 0.7, 5);
        kernel.draw(data.parameters, 0);
        const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
        checkDirections(spec, name, settings, data, grad, backward(kernel, data, grad, 1, interval), kBound);
      }
    }
  }
}

TEST_CASE("gradients of any width equal the reference", "[slow-on-emulator]") {
  const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/performer.phi").value();
  const Widths all[] = {{1, 1, 1, 0, {}},   {3, 8, 2, 1, {}},     {16, 20, 7, 0, {}},
                        {24, 1, 32, 1, {}}, {100, 3, 100, 0, {}}, {8, 72, 266, 1, {}}};
  for (const Widths &widths : all) {
    INFO("d " << widths.d << " e " << widths.e << " features " << widths.width);
    const CompileOptions settings = optionsFor(spec, widths);
    const Kernel kernel = compiled(spec, "performer", settings);
    Data data = makeData(kernel, {1, 1, 37}, DType::f64, 0.5, 5);
    kernel.draw(data.parameters, 0);
    const Tensor grad = randomGrad(kernel, data.sizes, DType::f64);
    checkDirections(spec, "performer", settings, data, grad, backward(kernel, data, grad, 1, widths.interval), kBound);
  }
}

TEST_CASE("float32 gradients equal the reference along random directions", "[slow-on-emulator]") {
  for (const char *name : {"flexformer_n", "retention", "rfa", "polaformer"}) {
    const Spec spec = Spec::parseFile(std::string(YAGLOM_SOURCE_DIR "/examples/specs/") + name + ".phi").value();
    for (const Widths &widths : {Widths{16, 12, 16, 0, {}}, Widths{16, 12, 16, 1, {}}}) {
      CompileOptions settings = optionsFor(spec, widths, DType::f32);
      const Kernel kernel = compiled(spec, spec.attentions().back(), settings);
      const Data data = makeData(kernel, {1, 2, 300}, DType::f32, 0.5, 5);
      const Tensor grad = randomGrad(kernel, data.sizes, DType::f32);
      INFO(name << ", residual " << widths.interval);
      checkDirections(spec, spec.attentions().back(), settings, data, grad,
                      backward(kernel, data, grad, 1, widths.interval), 1e-4);
    }
  }
}
