// What an exported attention looks like from C: its tensors with the names that they have there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "runtime/Compiled.h"
#include "yaglom/export.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yaglom::exporting {

/// Stands in every file that is written, so that a second export knows its own.
inline constexpr const char *kWriter = "written by yaglom export";

/// An input or the output: rows of tokens.
struct TokenTensor {
  std::string name, member; ///< "Q"; a member of a C struct
  bool ofKeys = false;      ///< it has M rows, which may be another number than N
  int64_t width = 1;
};

/// A parameter or draw, dense.
struct HeadTensor {
  std::string name, member; ///< "flexformer_n.W1", "flexformer_n_W1"
  bool shared = false;
  std::vector<int64_t> shape; ///< of a head
  std::string note;           ///< what it is and how it starts

  int64_t elements() const;
  int64_t width() const { return shape.empty() ? 1 : shape.back(); }
};

struct Interface {
  std::string name;   ///< the prefix of every symbol, and the name of every file
  std::string origin; ///< for comments: which attention of which spec, by which options
  DimValues dims;     ///< d, e and those of the spec
  bool equalLengths = false;
  std::vector<TokenTensor> inputs;
  TokenTensor output;
  std::vector<HeadTensor> heads; ///< what forward reads
  DType element = DType::f32;    ///< of inputs and outputs
  DType number = DType::f32;     ///< of tensors of heads
};

/// The code for one target.
struct Version {
  Target target;
  compiler::Program forward;
  std::optional<compiler::BackwardProgram> backward;

  bool isGpu() const { return !forward.code.architecture.empty(); }
};

/// The interface of `compiled` under `name`.
Interface describe(const runtime::Compiled &compiled, const std::string &name);

/// True for what C and C++ take as a name of a function.
bool isIdentifier(const std::string &name);
/// "x86_64_v3": `text` as a part of an identifier.
std::string toIdentifier(const std::string &text);
/// The type in C: "float", "double"; uint16_t holds the bits of f16 and bf16.
const char *toC(DType type);
/// "[B, H, N, 64]", "[H, 64, 64]".
std::string axes(const Interface &interface, const TokenTensor &tensor);
std::string axes(const HeadTensor &tensor);

/// NAME.h.
std::string writeHeader(const Interface &interface, const std::vector<Version> &versions);
/// NAME.c: checks, and launches of processors' code or the words of a GPU's. The Error is a bug.
Result<std::string> writeSource(const Interface &interface, const std::vector<Version> &versions);
/// NAMEConfig.cmake; `objects` are names of files.
std::string writeCMake(const Interface &interface, const std::vector<std::string> &objects, bool isGpu);
/// "NAME_x86_64_v3_": before "forward" and "backward" in the symbols of a version.
std::string symbolPrefix(const std::string &name, const Target &target);

/// Compiles for every target; the best version of processors' code comes first.
Result<std::vector<Version>> buildVersions(const Instance &instance, const CompileOptions &options,
                                           const ExportOptions &how, const std::string &name);
/// The condition in C that tells whether this processor runs code for `target`.
std::string supportCondition(const Target &target);

} // namespace yaglom::exporting
