// The same without a text file: Performer's feature map written in C++, a mistake shown at its line, and the text of the spec.
// SPDX-License-Identifier: Apache-2.0
#include <yaglom/yaglom.h>

#include <cstdio>
#include <vector>

using namespace yaglom;

namespace {

Spec performer() {
  Spec spec;
  Dim m = spec.dim("m", 256);
  Map favor = spec.map("favor", [&](MapScope &f, Expr x) {
    Expr W = f.draw("W", {m, f.d()}, sampler::orthogonal());
    Expr u = f.let("u", x / pow(f.d(), 0.25));
    return exp(matmul(W, u) - square(norm(u)) / 2) / sqrt(m);
  });
  spec.attention("performer",
                 [&](AttentionScope &a) { return linear(favor(a.Q), favor(a.K), a.V).causal().normalize(); });
  return spec;
}

} // namespace

int main() try {
  const Spec spec = performer();
  std::printf("%s\n", spec.print().c_str());

  Kernel attention = compile(spec, "performer", {.headDim = 32, .dims = {{"m", 64}}}).value();
  Shape shape{1, 2, 500, 32};
  std::vector<float> q(32'000, 0.2f), v(32'000, 0.5f), o(32'000);
  attention.forward({{q.data(), shape}, {q.data(), shape}, {v.data(), shape}}, attention.initialParameters(2),
                    {o.data(), shape});
  std::printf("O[0] = %g, the mean of equal values\n\n", o[0]);

  Spec mistaken;
  mistaken.attention("a", [](AttentionScope &a) {
    return linear(a.Q, a.Q, a.V); // the query stands where a key belongs
  });
  const Result<void> check = mistaken.check();
  std::printf("%s\n", check ? "no mistake found" : check.error().what());
} catch (const Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
