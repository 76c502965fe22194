// The first kernel: a formula from a file becomes code for this machine, and runs on 2 x 4 heads of 1000 tokens.
// SPDX-License-Identifier: Apache-2.0
#include <yaglom/yaglom.h>

#include <cstdio>
#include <vector>

using namespace yaglom;

int main() try {
  Spec spec = Spec::parseFile("examples/specs/flexformer_n.phi").value();
  Kernel attention = compile(spec, "flexformer_n_attention", {.headDim = 64}).value();

  Shape shape{2, 4, 1000, 64}; // batch, heads, tokens, width
  std::vector<float> q(512'000, 0.1f), k(512'000, 0.2f), v(512'000, 0.3f), o(512'000);

  Parameters parameters = attention.initialParameters(/*heads=*/4, /*seed=*/7); // W1, W2, sigma, tau
  attention.forward({{q.data(), shape}, {k.data(), shape}, {v.data(), shape}}, parameters, {o.data(), shape});

  std::printf("compiled in %.0f ms, O[0] = %g\n", attention.compileMilliseconds(), o[0]);
} catch (const Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
