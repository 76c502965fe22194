// A user's program: an attention whose value is known (the mean of equal values), and an error that crosses the library.
// SPDX-License-Identifier: Apache-2.0
#include <yaglom/yaglom.h>

#include <cstdio>
#include <vector>

using namespace yaglom;

int main() {
  try {
    Spec::parse("attention broken(Q, K, V) = linear(Q, K, V)").value();
    return 2;
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  Spec spec = Spec::parse("attention a(Q; K, V) = linear(exp(Q), exp(K), V) with causal, normalize").value();
  Kernel kernel = compile(spec, "a", {.headDim = 16}).value();
  Shape shape{1, 1, 100, 16};
  std::vector<float> q(1600, 0.1f), v(1600, 0.5f), o(1600);
  kernel.forward({{q.data(), shape}, {q.data(), shape}, {v.data(), shape}}, kernel.initialParameters(1),
                 {o.data(), shape});
  std::printf("O[0] = %.4g\n", o[0]);
}
