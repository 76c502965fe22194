// A compiled attention: what it takes, its initial parameters and draws, and launching it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/device.h"
#include "yaglom/tensor.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace yaglom {

/// What one tensor of a kernel is for.
enum class TensorRole { Input, Parameter, Draw, Noise, Output, State };

/// A tensor of a kernel by its name in the language: "Q", "flexformer_n.W1", "favor.W.noise", "state.S".
struct TensorInfo {
  std::string name;
  TensorRole role;
  /// Axes in order; the dynamic ones are named: "B", "H", "N", "M" (length of the keys), others are numbers.
  std::vector<std::string> axes;
  std::string initial; ///< parameters: the initial value as written in the spec; draws: the sampler
};

/// What a forward launch leaves for the backward launch with the same arguments: states of the attention along the sequence,
/// so that backward needs one sweep instead of two. It may be used again for the next launch, whose memory it then has.
/// Outputs have the same bits with it and without; gradients differ by rounding, but not by the interval. An attention without a
/// state (softmax_attention) leaves nothing, and one over both directions a single state. Launches that share one must not
/// overlap in time.
///
///     Residual residual;
///     kernel.forward({q, k, v}, parameters, o, {.residual = &residual});
///     Gradients gradients = kernel.backward({q, k, v}, parameters, gradO, {.residual = &residual});
class YAGLOM_API Residual {
public:
  /// Keeps the state before every `interval`-th chunk of tokens: 1 keeps all and is the fastest, more need less memory and
  /// compute the states between two again. Throws Error when it is less than 1.
  explicit Residual(int64_t interval = 1);
  Residual(Residual &&) noexcept;
  Residual &operator=(Residual &&) noexcept;
  ~Residual();

  /// Bytes of the states that it holds.
  int64_t bytes() const;

  struct Impl;
  Impl &data() const { return *impl; } ///< for the runtime

private:
  std::unique_ptr<Impl> impl;
};

/// How to run one launch.
struct Launch {
  int threads = 0; ///< at most so many, the calling one among them; 0 (or more than the cores) means one a core
  Residual *residual = nullptr; ///< is filled for the backward launch
  void *stream = nullptr;       ///< of a kernel of a GPU: the CUstream to run on; null is the legacy default stream
};

/// How to run one backward launch.
struct Backward {
  int threads = 0;                    ///< as Launch::threads
  uint64_t seed = 0;                  ///< that the draws were made from, unless their noise is among the parameters
  const Residual *residual = nullptr; ///< of the forward launch with the same inputs and parameters
  void *stream = nullptr;             ///< as Launch::stream
};

/// The launches to prepare for: up to these sizes, on this stream.
struct Prepare {
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t queryLength = 1;
  int64_t keyLength = 0;        ///< 0: as queryLength
  bool backward = false;        ///< backward launches too
  Residual *residual = nullptr; ///< launches with it; it gets its memory
  DeviceGradients *gradients =
      nullptr;            ///< backward launches into it; it gets the tensors that it lacks, of these sizes
  void *stream = nullptr; ///< as Launch::stream
};

/// Gradients by name: "grad.Q", "grad.flexformer_n.W1", "grad.flow.0.scale.W0"; each has the shape of its tensor.
using Gradients = Parameters;

/// A compiled attention. Copies share the code; every member function is thread-safe.
///
/// A kernel of a GPU (`Target::parse("cuda")`) takes inputs and output in that GPU's memory (TensorRef::onCuda). With
/// DeviceParameters its launches are enqueued on their stream and return; a mistake of the machine shows at a later call. With
/// Parameters these are copied to the GPU for every launch, which waits until it is done: simple and slow, and an Error while
/// the stream is being captured. Scratch belongs to the library, one block for each GPU and stream, whatever kernels use it.
class YAGLOM_API Kernel {
public:
  struct Impl;
  explicit Kernel(std::shared_ptr<const Impl> impl);
  Kernel(const Kernel &);
  Kernel(Kernel &&) noexcept;
  Kernel &operator=(const Kernel &);
  Kernel &operator=(Kernel &&) noexcept;
  ~Kernel();

  /// Every tensor of the kernel: inputs in the order of the declaration, parameters, draws, noise, output, state.
  const std::vector<TensorInfo> &tensors() const;
  /// Names of the losses that belong to this attention.
  std::vector<std::string> losses() const;
  DType dtype() const;
  /// Milliseconds that compiling took; 0 when the kernel came from the cache.
  double compileMilliseconds() const;
  /// Bytes of scratch that one thread needs during a launch.
  int64_t scratchBytes() const;
  /// Multiply-adds that one launch needs at least: projections, chunk triangle, state (docs/performance.md).
  double necessaryMultiplyAdds(int64_t batch, int64_t heads, int64_t queryLength, int64_t keyLength) const;

  /// Parameters at their initial values and draws from `seed`, for `heads` heads. Throws Error.
  Parameters initialParameters(int64_t heads, uint64_t seed = 0) const;
  /// Draws again every random tensor of `parameters` from `seed`, by the current sampler parameters.
  /// A tensor "f.W.noise" among the parameters overrides the generator. Throws Error.
  void draw(Parameters &parameters, uint64_t seed) const;
  /// The standard normal noise of draws and losses for `seed`: "f.W.noise", "r.noise", shape [H, rows, entries].
  Parameters noise(int64_t heads, uint64_t seed) const;
  /// Value of loss `name`, one per head ([H], or [1] when both samplers are shared). Throws Error.
  std::vector<double> loss(const std::string &name, const Parameters &parameters, uint64_t seed) const;

  /// Gradients of the sum over heads of loss `name` by the parameters of both its samplers: "grad.flow.0.scale.W0". The
  /// first call compiles it. Throws Error.
  Gradients lossGradient(const std::string &name, const Parameters &parameters, uint64_t seed) const;

  /// Computes the attention. `inputs` in the order of the declaration: [B, H, N, width], or [B, H, N] for a scalar;
  /// `output` [B, H, N, e]. The caller owns all memory. Throws Error that names the argument, before anything runs.
  void forward(std::initializer_list<TensorRef> inputs, const Parameters &parameters, const TensorRef &output,
               const Launch &launch = {}) const;
  void forward(const std::vector<TensorRef> &inputs, const Parameters &parameters, const TensorRef &output,
               const Launch &launch = {}) const;
  /// The same with parameters from upload().
  void forward(const std::vector<TensorRef> &inputs, const DeviceParameters &parameters, const TensorRef &output,
               const Launch &launch = {}) const;

  /// Gradients of sum(O * outputGradient) by every input, by the parameters and draws that are given, and through draws by
  /// the parameters of their samplers. Arguments as for forward(); `outputGradient` [B, H, N, e] may have any strides. The
  /// first call compiles the gradient. Throws Error that names the argument, before anything runs.
  Gradients backward(std::initializer_list<TensorRef> inputs, const Parameters &parameters,
                     const TensorRef &outputGradient, const Backward &options = {}) const;
  Gradients backward(const std::vector<TensorRef> &inputs, const Parameters &parameters,
                     const TensorRef &outputGradient, const Backward &options = {}) const;
  /// The same into the tensors that `gradients` has of these names: their memory stays, what they hold does not. Those that
  /// it lacks are set. Throws Error when one has another shape or type, or overlaps an argument.
  void backward(const std::vector<TensorRef> &inputs, const Parameters &parameters, const TensorRef &outputGradient,
                Gradients &gradients, const Backward &options = {}) const;
  /// The same, added to what these tensors hold.
  void accumulate(const std::vector<TensorRef> &inputs, const Parameters &parameters, const TensorRef &outputGradient,
                  Gradients &sums, const Backward &options = {}) const;
  /// The same with parameters from upload(), and gradients that stay where those are; what is lacking there is allocated. Sums
  /// over batch and heads have a fixed order: the same bits at every launch. Gradients through draws of samplers that have
  /// parameters are computed by way of the host: such a launch waits, and is an Error while the stream is being captured.
  void backward(const std::vector<TensorRef> &inputs, const DeviceParameters &parameters,
                const TensorRef &outputGradient, DeviceGradients &gradients, const Backward &options = {}) const;
  void accumulate(const std::vector<TensorRef> &inputs, const DeviceParameters &parameters,
                  const TensorRef &outputGradient, DeviceGradients &sums, const Backward &options = {}) const;

  /// Copies tensors to where launches of this kernel find them: the memory of its GPU, or of the host. Throws Error.
  DeviceParameters upload(const Parameters &parameters, void *stream = nullptr) const;
  /// Does everything slow that the first of these launches would do: compiles the gradient, loads code, allocates scratch.
  /// Afterwards a launch with DeviceParameters, up to these sizes and on this stream, allocates nothing, loads nothing and
  /// waits for nothing, so it may be captured into a graph; unprepared, it is an Error there. Throws Error.
  void prepare(const Prepare &options) const;

private:
  std::shared_ptr<const Impl> impl;
};

} // namespace yaglom
