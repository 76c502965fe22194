// Loaded code: a module, and a function of it made ready to be launched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Stream.h"

#include <optional>
#include <vector>

namespace yaglom::cuda {

/// What the driver says of a loaded function. Bytes a thread for `local`, a block for `shared`.
struct FunctionAttributes {
  int registers = 0;
  int localBytes = 0;  ///< spilled registers and local arrays; 0 for a kernel that is fit
  int sharedBytes = 0; ///< static; dynamic shared memory comes on top
  int constantBytes = 0;
  int maxThreadsPerBlock = 0; ///< by its registers
  int ptxVersion = 0;         ///< 10 * major + minor
  int binaryVersion = 0;      ///< the architecture of its code, 10 * major + minor
};

/// What is known of a function's launches when it is prepared.
struct FunctionOptions {
  /// The most dynamic shared memory that a launch asks for, in bytes a block.
  size_t dynamicSharedBytes = 0;
  /// The size of each parameter by the compiler's signature, in bytes; none: what the driver says, from CUDA 12.4 on.
  std::optional<std::vector<size_t>> parameterBytes = {};
};

/// A function that a launch can use at once: loaded, with its attributes read and its shared memory granted. A handle:
/// copies name the same function, and keep its module and context.
class Function {
public:
  const std::string &name() const;
  const FunctionAttributes &attributes() const;
  const Context &context() const;
  /// The most dynamic shared memory that a launch may ask for, in bytes.
  size_t dynamicSharedBytes() const;
  /// The size of each parameter in bytes, if the compiler or the driver said so.
  const std::optional<std::vector<size_t>> &parameterBytes() const;
  abi::Function handle() const;

private:
  friend class Module;
  struct State;
  explicit Function(std::shared_ptr<const State> state) : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

/// Code loaded into a context. A handle; unloaded with the last one and the last Function of it.
class Module {
public:
  /// Loads PTX text or a cubin. `stream` is the one of the launches to come: while it is being captured into a graph
  /// nothing can be loaded, and that is an Error before the capture is broken. Errors: the PTX is too new for the
  /// driver, or for another GPU; the assembler refuses it, with its log.
  static Result<Module> load(const Context &context, std::string_view image, StreamHandle stream = nullptr);

  /// Makes an entry of the module ready for launches. Errors: there is none of that name; more shared memory than the
  /// GPU has; parameters of other sizes than `options` says.
  Result<Function> function(const std::string &name, const FunctionOptions &options = {}) const;

  /// What the driver's assembler said, its report on registers and spills among it; empty for a cubin.
  const std::string &log() const;

private:
  friend class Function;
  struct State;
  explicit Module(std::shared_ptr<const State> state) : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

/// Loads `image` and makes its entry `name` ready: everything that a launch must not do. See Module.
Result<Function> prepare(const Context &context, std::string_view image, const std::string &name,
                         const FunctionOptions &options = {}, StreamHandle stream = nullptr);

} // namespace yaglom::cuda
