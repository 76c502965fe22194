// Compiling one attention of a spec to a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/kernel.h"
#include "yaglom/schedule.h"
#include "yaglom/spec.h"

#include <cstdint>
#include <map>
#include <string>

namespace yaglom {

/// What runs the kernel.
class YAGLOM_API Target {
public:
  /// This machine's processor, with every vector extension it has.
  static Target host();
  /// The float64 interpreter that defines the language: exact, quadratic and slow.
  static Target reference();
  /// "host", "reference", "x86-64-v3" or "x86-64-v4"; "cuda" or "cuda:1", the NVIDIA GPU with that ordinal; "emulated" or
  /// "emulated:sm_90", a GPU of that architecture run on the processor; "sm_80", "sm_86", "sm_89", "sm_90", "sm_100" or "sm_120". A kernel for what is not here can be emitted but not
  /// run.
  static Result<Target> parse(const std::string &name);

  const std::string &name() const { return text; }
  /// Whether kernels for it can be launched in this process. That there is no driver or GPU for "cuda" shows when compiling.
  bool isRunnable() const;

private:
  explicit Target(std::string name);
  std::string text;
};

/// How an attention is specialised. Batch, heads, length and strides stay dynamic.
struct CompileOptions {
  Target target = Target::host();
  int64_t headDim = 64;                  ///< d: width of Q and K
  int64_t valueDim = 0;                  ///< e: width of V; 0 means headDim
  std::map<std::string, int64_t> dims{}; ///< overrides of the spec's `dim`s
  DType dtype = DType::f32;
  Schedule schedule{}; ///< left alone: a tuned one where there is one (yaglom/tune.h), else the compiler's own
};

/// Which program of a kernel.
enum class Pass { Forward, Backward, BackwardFromResidual };

/// Compiles `attention` of `spec`. Asking twice for the same kernel, from any thread, compiles once.
/// The Error of a wrong name or size carries the caret text.
YAGLOM_API Result<Kernel> compile(const Spec &spec, const std::string &attention, const CompileOptions &options = {});

/// Stages of `emit`, in the order of the pipeline.
enum class Stage { Ast, Formula, Scan, Tile, Llvm, Asm, Ptx };

/// The program after a stage, as text. With `locations` a comment says where in the spec each operation comes from, as far as
/// it is known: `// performer.phi:12:9`.
YAGLOM_API Result<std::string> emit(const Spec &spec, const std::string &attention, Stage stage,
                                    const CompileOptions &options = {}, Pass pass = Pass::Forward,
                                    bool locations = false);

} // namespace yaglom
