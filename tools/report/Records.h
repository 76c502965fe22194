// What `yaglom bench --json` and `yaglom tune --json` printed, read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yaglom::tools {

/// One line of bench. What a line lacks (a GPU has no share of the processor's peak) is no value.
struct BenchRecord {
  std::string attention, target, dtype, machine, date, dims;
  int64_t batch = 0, heads = 0, length = 0, headDim = 0, valueDim = 0, threads = 0, residual = 0;
  bool quadratic = false;
  double ms = 0;
  std::optional<double> bothMs, shareOfPeak, extraBytes, tokensPerSecond;
  nlohmann::ordered_json all; ///< the line
};

struct TuneCandidate {
  std::string schedule, outcome;    ///< "measured", or why it was not
  std::optional<double> ms, spread; ///< milliseconds
};

/// One line of tune.
struct TuneRecord {
  std::string attention, pass, target, machine, date, chosen;
  int64_t length = 0;
  std::vector<TuneCandidate> candidates;
};

struct Records {
  std::vector<BenchRecord> benches;
  std::vector<TuneRecord> tunes;
};

/// Adds the lines of `file`, whose `text` is one JSON object a line. Throws an Error that names file, line and what is wrong.
void readRecords(const std::string &file, const std::string &text, Records &records);

} // namespace yaglom::tools
