// Writing an attention out for applications that link neither yaglom nor LLVM: object files or PTX, with an interface in C.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/compile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace yaglom {

/// What is exported, beside the attention and its CompileOptions (whose target is not read).
struct ExportOptions {
  /// Processors ("host", "x86-64-v3", "x86-64-v4": several are one library, which takes the best that the machine runs),
  /// or one GPU architecture ("sm_80").
  std::vector<Target> targets{Target::host()};
  bool backward = false; ///< the gradient too
  std::string name{};    ///< prefix of symbols and files; empty: the attention's
  int64_t heads = 8;     ///< of the initial parameters
  uint64_t seed = 0;     ///< of the initial parameters and draws
};

/// A file of an export, by its name without a folder.
struct ExportedFile {
  std::string name;
  std::string bytes;
};

/// The files of an export: NAME.h, NAME.c, an object file for each target and pass (or PTX), NAMEConfig.cmake and
/// NAME.safetensors with the initial parameters and draws. docs/export.md shows how they are used. The Error of a wrong name
/// or size carries the caret text.
///
///     for (const ExportedFile &file : exportAttention(spec, "performer", {.headDim = 64}, {.backward = true}).value())
///       write(folder + "/" + file.name, file.bytes);
YAGLOM_API Result<std::vector<ExportedFile>> exportAttention(const Spec &spec, const std::string &attention,
                                                             const CompileOptions &options,
                                                             const ExportOptions &how = {});

/// True for bytes of a file that exportAttention() made: they may be replaced.
YAGLOM_API bool isExported(const std::string &bytes);

} // namespace yaglom
