// Runs attentions through the public interface, compiled for the host and by the reference, on the same tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/compile.h"
#include "yaglom/kernel.h"
#include "yaglom/spec.h"

#include <cstdint>
#include <string>
#include <vector>

namespace yaglom::tests {

/// A reproducible stream of numbers (SplitMix64, Steele et al. 2014).
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t bits();
  double uniform(double low = 0, double high = 1);
  double normal();
  int64_t below(int64_t count) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(count)); }

private:
  uint64_t state;
};

struct Sizes {
  int64_t batch = 1, heads = 1, rows = 1;
  int64_t keyRows = -1; ///< as many as rows when negative
};

/// Inputs and parameters of one launch, in float64 whatever the kernel's type.
struct Data {
  Sizes sizes;
  std::vector<std::string> names; ///< of the inputs, in the order of the declaration
  std::vector<Tensor> inputs;
  Parameters parameters;

  Tensor &operator[](const std::string &input);
  int64_t place(const std::string &input) const;
  /// Calls f(entry, row) for every entry of every input; `row` counts tokens from 0.
  template <typename F>
  void transform(F f);
};

/// The host, or what the environment variable YAGLOM_TEST_TARGET names: the same tests for another target.
Target testedTarget();
/// Is it the emulator, which runs 50 to 100 million instructions a second? It decides sizes, never what is compared.
bool onEmulator();
/// What a test goes through: `all`, or `fewer` of them on the emulator. The only place where sizes depend on the target.
template <typename T>
std::vector<T> fewerOnEmulator(std::vector<T> all, std::vector<T> fewer);
int64_t fewerOnEmulator(int64_t all, int64_t fewer);

Kernel compiled(const Spec &spec, const std::string &attention, const CompileOptions &options);
/// One attention, in a text; f64 unless `options` say otherwise.
Kernel compiled(const std::string &text, const std::string &attention, const CompileOptions &options);
CompileOptions options(DType dtype, int64_t d, int64_t e, const Target &target = testedTarget(), int64_t chunk = 0);

/// Vectors of normal numbers times `scale`, scalars a token uniform in (0, 1), parameters near their initial values.
/// All are numbers of `dtype`, so that a kernel of that type and the reference see the same.
Data makeData(const Kernel &kernel, Sizes sizes, DType dtype, double scale, uint64_t seed = 1);
/// Rounds every number to `dtype`.
void roundTo(Data &data, DType dtype);
Tensor toType(const Tensor &tensor, DType dtype);

/// The output [B, H, N, width], flattened.
std::vector<double> run(const Kernel &kernel, const Data &data, int threads = 1);
/// Entries of one row of the output.
int64_t outputWidth(const Kernel &kernel);
/// Does the attention ask for equal lengths, because something in it is causal?
bool isCausal(const Kernel &kernel);

/// By how much a relative change of every input, which is random and tiny, changes the output: relative rms by relative
/// size. About 1 for a well-conditioned attention, large where a denominator of changing sign comes near 0.
double amplification(const Kernel &reference, const Data &data);
/// The tolerance for these tensors: that of the table, or what a few roundings of the inputs do if that is more.
double conditioned(const Kernel &reference, const Data &data, DType dtype, int64_t terms);

/// Equal bits, any NaN equal to any other.
bool same(double x, double y);
bool same(const std::vector<double> &x, const std::vector<double> &y);
/// Number of entries that are no finite number.
int64_t countNonFinite(const std::vector<double> &values);

/// The specs of examples/specs by path, sorted: a new one is tested without anyone adding it.
std::vector<std::string> specFiles();

template <typename T>
std::vector<T> fewerOnEmulator(std::vector<T> all, std::vector<T> fewer) {
  return onEmulator() ? fewer : all;
}

template <typename F>
void Data::transform(F f) {
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    Tensor &tensor = inputs[n];
    const Shape &shape = tensor.shape();
    const int64_t width = shape.size() == 4 ? shape[3] : 1;
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, f(tensor.at(i), i / width % shape[2]));
  }
}

} // namespace yaglom::tests
