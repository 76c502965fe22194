// Launches that the tuner times and checks: on tensors of its own, so that no user's buffer is touched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tune/Bucket.h"
#include "yaglom/yaglom.h"

#include <string>
#include <vector>

namespace yaglom::runtime::tune {

/// Random inputs, parameters and output gradient of one attention. Rows have rms 0.35, scalars of a token (a decay, a mask) lie
/// between 0.5 and 1.
struct Workload {
  Workload(const Kernel &kernel, const Sizes &sizes);

  Sizes sizes;
  Parameters tensors;    ///< inputs by name, and "grad.O"
  Parameters parameters; ///< away from their initial values, where many gradients vanish; with draws
  std::vector<std::string> inputs;
  Shape output;
};

/// One pass of a kernel on a workload, ready to be launched again and again.
class Subject {
public:
  /// For the gradient from a residual a forward launch fills one. Throws Error.
  Subject(Kernel kernel, const Workload &workload, Pass pass, int threads);

  /// One launch; returns when it is done. Throws Error.
  void launch();
  /// "O", or the gradients: what the last launch wrote.
  Parameters results() const;
  /// Runs on the calling thread alone.
  bool isSerial() const { return threads == 1 && !onDevice; }

private:
  bool isForward() const { return pass == Pass::Forward; }
  /// Waits for what was enqueued.
  void wait() const;

  Kernel kernel;
  const Workload &workload;
  const Pass pass;
  const int threads;
  bool onDevice = false; ///< its memory is not the host's
  DeviceParameters tensors, parameters;
  std::vector<TensorRef> inputs;
  Residual residual;
  Gradients gradients;
  DeviceGradients deviceGradients;
};

} // namespace yaglom::runtime::tune
