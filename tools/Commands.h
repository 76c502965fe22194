// The commands of `yaglom`: their options, and one function each. The command line itself is in yaglom.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/yaglom.h"

#include <cstdint>
#include <string>
#include <vector>

namespace yaglom::tools {

/// Exit codes; scripts depend on them.
enum ExitCode { kSuccess = 0, kFailure = 1, kUsage = 2, kInterrupted = 130 };

struct CheckOptions {
  std::vector<std::string> files;
};

/// Which attention, and how it is specialised.
struct AttentionOptions {
  std::string file;
  std::string attention;
  CompileOptions compile;
};

struct DescribeOptions : AttentionOptions {
  bool json = false;
};

struct EmitOptions : AttentionOptions {
  Stage stage = Stage::Ast;
  bool backward = false;
  bool residual = false;
  bool locations = false; ///< comments that say where in the spec an operation comes from
  bool sassInfo = false;  ///< in place of a stage: what ptxas says of the kernels
  bool json = false;      ///< of sassInfo
};

struct RunOptions : AttentionOptions {
  std::string input;
  std::string output;
  uint64_t seed = 0;
  int threads = 0;
  bool writeDraws = false;
  bool counters = false; ///< prints what the emulator counted
  bool json = false;     ///< that, as JSON objects
  bool backward = false;
  int64_t residual = 0; ///< chunks between two kept states; 0 keeps none
  std::vector<std::string> losses;
};

struct BenchOptions : AttentionOptions {
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t length = 4096;
  std::vector<int64_t> lengths; ///< one after the other; empty: `length`
  int threads = 0;
  double seconds = 2; ///< how long it measures
  bool backward = false;
  int64_t residual = 0; ///< as in RunOptions
  bool json = false;
};

struct GradcheckOptions : AttentionOptions {
  int64_t batch = 1;
  int64_t heads = 2;
  int64_t length = 33;
  uint64_t seed = 0;
  bool json = false;
};

/// A kernel of a PTX text and what it is launched with. docs/emulator.md says how arguments are written.
struct EmulateOptions {
  std::string file;
  std::string kernel; ///< may be empty when the text has one
  std::vector<uint32_t> grid;
  std::vector<uint32_t> block;
  uint64_t sharedBytes = 0;
  std::string input;
  std::string output;
  std::vector<std::string> arguments; ///< lists with commas, by position
  std::vector<std::string> named;     ///< NAME=VALUE
  uint64_t seed = 0;
  int threads = 0;
  uint64_t budget = 0; ///< warp instructions a block; 0: the emulator's own
  bool json = false;
};

/// Each returns kSuccess or kFailure, or throws the Error that main() prints.
int check(const CheckOptions &options);
int describe(const DescribeOptions &options);
int emit(const EmitOptions &options);
int run(const RunOptions &options);
int bench(const BenchOptions &options);
int benchGpu(const BenchOptions &options, int ordinal); ///< of bench, for the target cuda and one length
int sassInfo(const EmitOptions &options);               ///< of emit
int gradcheck(const GradcheckOptions &options);
/// kFailure when the kernel has findings, too.
int emulate(const EmulateOptions &options);

/// The spec of `file`; its warnings go to stderr. Throws its diagnostics.
Spec loadSpec(const std::string &file);

/// Prints a diagnostic as it is, and ends the line.
void printError(const std::string &text);

} // namespace yaglom::tools
