// The commands of `yaglom`: their options, and one function each. The command line itself is in yaglom.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/yaglom.h"

#include <cstdint>
#include <string>
#include <vector>

namespace yaglom::tools {

/// Exit codes; scripts depend on them.
enum ExitCode { kSuccess = 0, kFailure = 1, kUsage = 2 };

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
};

struct RunOptions : AttentionOptions {
  std::string input;
  std::string output;
  uint64_t seed = 0;
  int threads = 0;
  bool writeDraws = false;
  bool backward = false;
  int64_t residual = 0; ///< chunks between two kept states; 0 keeps none
  std::vector<std::string> losses;
};

struct BenchOptions : AttentionOptions {
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t length = 4096;
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

/// Each returns kSuccess or kFailure, or throws the Error that main() prints.
int check(const CheckOptions &options);
int describe(const DescribeOptions &options);
int emit(const EmitOptions &options);
int run(const RunOptions &options);
int bench(const BenchOptions &options);
int gradcheck(const GradcheckOptions &options);

/// The spec of `file`; its warnings go to stderr. Throws its diagnostics.
Spec loadSpec(const std::string &file);

/// Prints a diagnostic as it is, and ends the line.
void printError(const std::string &text);

/// "f32" or "f64".

} // namespace yaglom::tools
