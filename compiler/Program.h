// What the compiler hands to the runtime: the entry points of one attention and how to call them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "yaglom/compile.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace yaglom::compiler {

/// What code generation made of all functions of a program, before it is in this process.
struct Code {
  std::string architecture;     ///< of a GPU, "sm_80"; empty for a processor
  std::string bytes;            ///< PTX, or an object file; load() takes them
  std::shared_ptr<void> loaded; ///< owns the machine code of the host
};

/// PTX of a module, and the architecture that it is for.
struct GpuModule {
  GpuModule(std::string ptx, std::string architecture) : ptx(std::move(ptx)), architecture(std::move(architecture)) {}

  const std::string ptx, architecture;
  mutable std::once_flag once;
  mutable std::shared_ptr<void> loaded; ///< what the runtime made of it, once
};

/// An entry of a GpuModule: one block of `threads` threads an item, parameters by compiler/targets/nvgpu/KernelAbi.h.
struct GpuKernel {
  std::shared_ptr<const GpuModule> module; ///< null for a function of the host, and before load()
  std::string name;
  int64_t threads = 0;
  int64_t sharedBytes = 0;  ///< of dynamic shared memory, a block
  int64_t scratchBytes = 0; ///< of device memory, a block
};

/// One compiled function. It is serial, allocates nothing, and works on one item: one (batch, head) of an attention, or
/// one head of a draw. `arguments` is an array of 64-bit words:
///   [0] rows of the query side (tokens, or rows of a draw)   [1] rows of the key side
///   [2] position of row 0, from 1 (`pos`)                    [3] `len`
///   [4] the row to begin with, a multiple of Program::chunk  [5] address of the state before it, or 0
///   [6] address that the state after the last row is written to, or 0                       [7] reserved
///   then two words for each operand: its address, and the distance of two rows in elements.
/// Rows of an operand are dense. `scratch` has scratchBytes bytes, 64-byte aligned.
struct Entry {
  using Function = void (*)(const int64_t *arguments, void *scratch);
  static constexpr int kHeaderWords = 8;
  Function function = nullptr; ///< of the host, from load()
  GpuKernel gpu;
  std::vector<std::string> operands; ///< tensor names: inputs, outputs, parameters, draws
  std::string symbol = {};           ///< of a function of the host, in its object file

  bool exists() const { return !symbol.empty() || !gpu.name.empty(); }
};

/// Operands of a draw that the runtime prepares, since a row depends on its place among all rows:
///   "component(mix.mu, mix.alpha) of f.W"  row i is the row of mix.mu that row i is allocated to (language.md section 5)
///   "orthogonalize(noise) of f.W"          the noise of f.W after Gram-Schmidt in each block of rows
struct PreparedOperand {
  enum class Kind { Component, Orthogonalize } kind = Kind::Component;
  std::string table, alpha; ///< Component

  /// The operand that `name` describes; nothing when it is the name of a tensor.
  static std::optional<PreparedOperand> parse(const std::string &name);
};

/// What a part of a sequence, some rows of it, needs to be computed by itself.
enum class Parts {
  None,        ///< cannot be: one attention is causal, another is not
  Independent, ///< nothing: there is no state
  Prefix,      ///< the state of the keys before it
  Whole,       ///< the state of all keys
};

/// What a forward launch can keep for the gradient.
enum class Keeps {
  Nothing,  ///< no state, or one beside a quadratic attention
  Segments, ///< everything is causal: the state before each segment of the sequence
  Last,     ///< the state of all keys
};

/// The running maxima that one `linear` carries, found by where it is written. Those of a `fn` that is applied twice stand
/// there twice, in the order of application.
struct LogScales {
  ast::Position position;
  int64_t count = 0; ///< one a feature, or 1 for all
};

/// The compiled form of one attention: one forward function, and one function for each draw of a sampler.
/// Losses are estimates over a few hundred samples and need no fused code: the reference computes them.
struct Program {
  Entry forward; ///< operands: inputs as declared, parameters and draws that it reads, then "O"
  /// The same operands and words, [1] the key to end before: computes the state alone, bit for bit as `forward` does.
  /// Without a function when the attention has no state.
  Entry advance;
  int64_t stateElements = 0;        ///< of one item, in the kernel's element type
  std::vector<LogScales> logScales; ///< of every `linear` whose exponents must be tracked
  int64_t chunk = 0;                ///< tokens handled together: parts begin at its multiples
  Parts parts = Parts::None;
  Keeps keeps = Keeps::Nothing;
  std::vector<Entry> draws; ///< one for each Instance::draws: noise, sampler parameters, then what it writes
  int64_t scratchBytes = 0;
  double multiplyAddsPerQuery = 0; ///< necessary work (docs/performance.md) that one query row adds
  double multiplyAddsPerKey = 0;
  double multiplyAddsPerPair = 0; ///< of a quadratic attention: for each pair of a query and a key
  Code code;
};

/// One compiled gradient. Operands: those of the function that it is the gradient of, without its results; the gradients of
/// those; gradients of the former; then rows that the caller lends, as many as the query side has. One that takes states has
/// word [4] for the rows of a segment, and two more operands for each member of a state: [segments, elements] and, lent,
/// [chunks of a segment, elements].
struct GradientEntry : Entry {
  std::vector<std::string> gradients; ///< names of the operands that are written, "grad.Q" ...
  std::vector<int64_t> rowWidths;     ///< of the rows lent
  struct Member {
    int64_t offset, elements; ///< in the state of an item
  };
  std::vector<Member> kept; ///< of a gradient that takes states: after the rows, the states and one segment's
};

/// The gradients of one attention and of its draws.
struct BackwardProgram {
  GradientEntry backward;
  std::vector<GradientEntry> draws; ///< one for each Instance::draws
  int64_t scratchBytes = 0;
  Code code;
};

/// The gradient of one loss: operands are the noise, "weight of r", parameters and prepared rows, then "grad.r", [samples].
struct LossProgram {
  GradientEntry backward;
  int64_t scratchBytes = 0;
  Code code;
};

/// "sm_80" of "emulated", "emulated:sm_80" and "sm_80"; nothing for the targets that are no GPU.
std::optional<std::string> gpuArchitecture(const std::string &target);

/// All that code generation asks of the machine a target stands for: the processor's name and features, or the architecture.
std::string machineIdentity(const std::string &target);

/// Program::logScales without compiling further; empty where the compiler refuses the attention.
std::vector<LogScales> findLogScales(const Instance &instance, const CompileOptions &options);

/// Compiles for the target of the options. The Error is ours (a bug, with a reproducer) or names an unsupported target.
Result<Program> build(const Instance &instance, const CompileOptions &options);

/// Compiles the gradients; that of the attention from the states that a forward launch kept, unless `keeps` is Nothing.
/// The Error names what cannot be differentiated, or is ours.
Result<BackwardProgram> buildBackward(const Instance &instance, const CompileOptions &options, Keeps keeps);

/// Compiles the gradient of one of the losses, `index` in Instance::losses.
Result<LossProgram> buildLossGradient(const Instance &instance, std::size_t index, const CompileOptions &options);

/// Brings the code of a built program into this process (compiler/Load.cpp): afterwards its entries can be launched.
Result<std::shared_ptr<const Program>> load(Program program);
Result<std::shared_ptr<const BackwardProgram>> load(BackwardProgram program);
Result<std::shared_ptr<const LossProgram>> load(LossProgram program);

/// The program, or its gradient, as text after a stage (everything but Stage::Ast, which the front end prints).
/// `locations` adds where in the spec each operation comes from.
Result<std::string> emitText(const Instance &instance, Stage stage, const CompileOptions &options, Pass pass,
                             bool locations = false);

} // namespace yaglom::compiler
