// What a Kernel keeps: the bound attention, its program, and a plan of where each operand comes from at launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "frontend/Instance.h"
#include "runtime/GpuDevice.h"
#include "runtime/tune/Choices.h"
#include "yaglom/compile.h"
#include "yaglom/kernel.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace yaglom::runtime {

/// Name and shape of a tensor that belongs to heads, not to tokens: a parameter, a draw, noise, or a loss.
struct HeadTensor {
  std::string name;
  bool shared = false;        ///< one for all heads: no leading H
  std::vector<int64_t> shape; ///< of one head

  Shape shapeFor(int64_t heads) const;
  int64_t elements() const; ///< of one head
};

/// Where an operand of a compiled function comes from.
struct OperandSource {
  enum class Kind { Input, Output, Head };
  Kind kind = Kind::Input;
  std::size_t index = 0; ///< Input: its place in the declaration; Head: in Compiled::headTensors
  bool written = false;
};

/// A compiled function with its operands resolved.
struct Plan {
  const compiler::Entry *entry = nullptr;
  std::vector<OperandSource> operands; ///< as many as entry->operands, in the same order
};

/// A compiled attention: everything that does not depend on a launch. Immutable, shared by all copies of a Kernel.
struct Compiled : std::enable_shared_from_this<Compiled> {
  Compiled(Spec spec, Instance instance, CompileOptions options, std::shared_ptr<const compiler::Program> program,
           std::shared_ptr<GpuDevice> device = nullptr);

  Spec spec; ///< owns the tree that `instance` points into
  Instance instance;
  CompileOptions options; ///< their target is what code is compiled for: "sm_90" for a kernel of "cuda"
  std::shared_ptr<const compiler::Program> program; ///< null for the reference target
  std::shared_ptr<GpuDevice> device;                ///< where it runs; null for the host

  bool equalLengths = false;           ///< something in it is causal: Q and K have one length
  std::vector<HeadTensor> headTensors; ///< parameters, draws, noise of draws, noise of losses, losses, in this order
  std::vector<std::size_t> forwardTensors; ///< places in headTensors of what forward() needs, on every target alike
  Plan forward;
  std::vector<Plan> draws; ///< as Instance::draws
  std::vector<TensorInfo> tensors;

  /// Place in headTensors. The name must be there.
  std::size_t headTensor(const std::string &name) const;
  /// Of parameters, draws, states and sums.
  DType parameterType() const { return yaglom::parameterType(options.dtype); }
  bool isReference() const { return !program; }
  /// True where a tuned schedule may be used in place of the compiler's own.
  bool isTunable() const { return !isPinned && program && options.schedule.isDefault(); }
  /// What runs launches of these sizes: the compiler's own schedule, or a tuned one (runtime/tune/Choices.h). Throws Error.
  const Choice &choose(Pass pass, const Sizes &sizes) const { return choices.of(*this, pass, sizes); }
  /// The forward program of a schedule. The Error is the compiler's.
  Result<std::shared_ptr<const compiler::Program>> forwardBy(const Schedule &schedule) const;
  /// The gradients by a schedule, from kept states unless `keeps` is Nothing: compiled when they are first asked for, from any
  /// thread.
  Result<std::shared_ptr<const compiler::BackwardProgram>> backwardBy(compiler::Keeps keeps,
                                                                      const Schedule &schedule) const;
  /// Those that the options say. Throws the Error of compiling them.
  const compiler::BackwardProgram &backward(compiler::Keeps keeps) const {
    return *backwardBy(keeps, options.schedule).value();
  }
  /// Gradients that were built elsewhere; only before this is shared.
  void setBackward(compiler::Keeps keeps, std::shared_ptr<const compiler::BackwardProgram> program);
  /// The same of loss `index`.
  const compiler::LossProgram &lossGradient(std::size_t index) const;

  bool isPinned = false; ///< the options' schedule is used, whatever was tuned
  Choices choices;

private:
  struct Lazy {
    std::once_flag once;
    Result<std::shared_ptr<const compiler::BackwardProgram>> program =
        std::shared_ptr<const compiler::BackwardProgram>();
  };
  Lazy &lazyBackward(compiler::Keeps keeps, const Schedule &schedule) const;

  mutable std::mutex backwardMutex;
  mutable std::map<std::string, Lazy> backwardPrograms; ///< by what is kept and the schedule's text
  mutable std::mutex lossMutex;
  mutable std::map<std::size_t, std::shared_ptr<const compiler::LossProgram>> lossPrograms;
};

/// What the tuner fixes of a kernel.
struct Preset {
  bool isPinned = false; ///< as Compiled::isPinned
  compiler::Keeps keeps = compiler::Keeps::Nothing;
  std::shared_ptr<const compiler::BackwardProgram> backward; ///< as Compiled::setBackward(keeps, ...); may be null
};

/// Resolves every operand of `program` (null: the reference), which runs on `device` (null: the host). The Error is a bug: the
/// program names an operand that the attention does not have.
Result<std::shared_ptr<const Compiled>> makeCompiled(Spec spec, Instance instance, CompileOptions options,
                                                     std::shared_ptr<const compiler::Program> program,
                                                     std::shared_ptr<GpuDevice> device = nullptr,
                                                     const Preset &preset = {});

/// compile(), without the time that it took. Asking again gives the same object.
Result<std::shared_ptr<const Compiled>> compileShared(const Spec &spec, const std::string &attention,
                                                      const CompileOptions &options);

/// Binds every dimension of an attention by options: d, e and overrides. The Error is the user's.
Result<Instance> bindOptions(const Spec &spec, const std::string &attention, const CompileOptions &options);

/// What a user sees of an attention, in the order of Kernel::tensors().
std::vector<TensorInfo> describeTensors(const Instance &instance, bool equalLengths,
                                        const std::vector<compiler::LogScales> &logScales);

/// Does anything that `attention` computes ask for `causal`? Then the lengths of Q and K must be equal.
bool needsEqualLengths(const ast::File &file, const ast::AttentionDecl &attention);

} // namespace yaglom::runtime

namespace yaglom {

struct Kernel::Impl {
  std::shared_ptr<const runtime::Compiled> compiled;
  double compileMilliseconds = 0;
};

} // namespace yaglom
