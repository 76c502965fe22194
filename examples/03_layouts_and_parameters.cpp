// Memory as it lies: tensors stored [batch, tokens, heads, width] by strides, parameters read and changed, draws repeated.
// SPDX-License-Identifier: Apache-2.0
#include <yaglom/yaglom.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace yaglom;

namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kTokens = 300, kWidth = 32;

/// One array [batch, tokens, 3, heads, width] holds queries, keys and values, as a fused projection leaves them.
TensorRef part(const std::vector<float> &packed, int64_t which) {
  const int64_t row = 3 * kHeads * kWidth;
  return {packed.data() + which * kHeads * kWidth,
          {kBatch, kHeads, kTokens, kWidth},
          {kTokens * row, kWidth, row, 1}}; // strides in elements, in the order of the axes: batch, head, token, entry
}

} // namespace

int main() try {
  Spec spec = Spec::parseFile("examples/specs/performer.phi").value();
  Kernel attention = compile(spec, "performer", {.headDim = kWidth, .dims = {{"m", 128}}}).value();

  for (const TensorInfo &tensor : attention.tensors()) {
    std::printf("%-16s [", tensor.name.c_str());
    for (size_t i = 0; i < tensor.axes.size(); ++i)
      std::printf("%s%s", i ? ", " : "", tensor.axes[i].c_str());
    std::printf("]  %s\n", tensor.initial.c_str());
  }

  std::vector<float> packed(kBatch * kTokens * 3 * kHeads * kWidth);
  for (size_t i = 0; i < packed.size(); ++i)
    packed[i] = std::sin(0.1f * static_cast<float>(i % 1009));
  Tensor first(DType::f32, {kBatch, kHeads, kTokens, kWidth}), second = first;

  Parameters parameters = attention.initialParameters(kHeads, /*seed=*/1);
  attention.forward({part(packed, 0), part(packed, 1), part(packed, 2)}, parameters, first);

  attention.draw(parameters, /*seed=*/2); // other random features, an independent estimate of the same attention
  attention.forward({part(packed, 0), part(packed, 1), part(packed, 2)}, parameters, second);

  double difference = 0;
  for (int64_t i = 0; i < first.size(); ++i)
    difference = std::max(difference, std::abs(first.at(i) - second.at(i)));
  std::printf("two draws of %s differ by %.3f at most\n", "favor.W", difference);

  try { // a mistake at launch names the argument, before anything runs
    attention.forward({part(packed, 0), part(packed, 1), {packed.data(), {kBatch, kHeads, kTokens, 16}}}, parameters,
                      first);
  } catch (const Error &error) {
    std::printf("refused: %s\n", error.what());
  }
} catch (const Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
