// A kernel with its tensors, ready to be launched again and again: what the benchmarks share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/yaglom.h"

#include <vector>

namespace yaglom::bench {

struct Sizes {
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t length = 4096;
};

/// Random inputs of a kernel by name, and room for "O". Beyond a million entries the same ones come again.
Parameters makeTensors(const Kernel &kernel, const Sizes &sizes);

/// Rows have rms 0.35, scalars of a token (a decay, a mask) lie between 0.5 and 1.
class Subject {
public:
  Subject(Kernel kernel, const Sizes &sizes);

  void forward(int threads) const { kernel.forward(inputs, parameters, output, {.threads = threads}); }
  void forwardKeeping(int threads, Residual &residual) const {
    kernel.forward(inputs, parameters, output, {.threads = threads, .residual = &residual});
  }
  void backward(int threads, const Residual *residual = nullptr) const {
    kernel.backward(inputs, parameters, output, {.threads = threads, .residual = residual});
  }
  /// GFLOP of necessary work in one launch, two for each multiply-add.
  double necessaryGflop() const;

  const Kernel kernel;

private:
  Sizes sizes;
  Parameters parameters;
  Parameters tensors;
  std::vector<TensorRef> inputs;
  TensorRef output;
};

} // namespace yaglom::bench
