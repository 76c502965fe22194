// A line is of tune when it says so, and of bench otherwise.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/Records.h"

#include "yaglom/result.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

namespace yaglom::tools {
namespace {

using Json = nlohmann::ordered_json;

/// The members of one object; throws what is wrong with them.
class Members {
public:
  explicit Members(const Json &object) : object(object) {
    if (!object.is_object())
      throw Error("expected a JSON object");
  }

  std::string text(const char *name) const { return need(name, &Json::is_string, "a string").get<std::string>(); }
  std::string textOr(const char *name, const std::string &other = "") const {
    return object.contains(name) ? text(name) : other;
  }
  int64_t count(const char *name) const {
    const auto &value = need(name, &Json::is_number_integer, "a whole number");
    const auto number = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX ? -1 : value.get<int64_t>();
    if (number < 0)
      throw Error(fmt::format("'{}': expected a count, found {}", name, value.dump()));
    return number;
  }
  int64_t countOr(const char *name, int64_t other) const { return object.contains(name) ? count(name) : other; }
  bool flag(const char *name) const {
    return object.contains(name) && need(name, &Json::is_boolean, "true or false").get<bool>();
  }
  /// A finite number, 0 or more; null, which stands for a number that is not finite, is none.
  std::optional<double> number(const char *name) const {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null())
      return std::nullopt;
    const double value = need(name, &Json::is_number, "a number").get<double>();
    if (!std::isfinite(value) || value < 0)
      throw Error(fmt::format("'{}': expected a number of 0 or more, found {}", name, found->dump()));
    return value;
  }
  double time(const char *name) const {
    const std::optional<double> value = number(name);
    if (!value || *value == 0)
      throw Error(fmt::format("'{}': expected a time in milliseconds, found {}", name,
                              object.contains(name) ? object[name].dump() : "none"));
    return *value;
  }
  const Json &list(const char *name) const { return need(name, &Json::is_array, "a list"); }

private:
  const Json &need(const char *name, bool (Json::*is)() const noexcept, const char *what) const {
    const auto found = object.find(name);
    if (found == object.end())
      throw Error(fmt::format("'{}' is missing", name));
    if (!((*found).*is)())
      throw Error(fmt::format("'{}': expected {}, found {}", name, what, found->dump()));
    return *found;
  }

  const Json &object;
};

BenchRecord readBench(const Json &json) {
  const Members members(json);
  BenchRecord record;
  record.attention = members.text("attention");
  record.target = members.text("target");
  record.dtype = members.text("dtype");
  record.machine = members.textOr("device", members.textOr("machine"));
  record.date = members.textOr("date");
  record.dims = members.textOr("set");
  record.batch = members.count("batch");
  record.heads = members.count("heads");
  record.length = members.count("length");
  if (record.length == 0)
    throw Error("'length': expected 1 or more, found 0");
  record.headDim = members.count("head_dim");
  record.valueDim = members.count("value_dim");
  record.threads = members.countOr("threads", 0);
  record.residual = members.countOr("residual", 0);
  record.quadratic = members.flag("quadratic");
  record.ms = members.time("ms_median");
  record.bothMs = members.number("both_ms_median");
  record.shareOfPeak = members.number("share_of_peak");
  record.extraBytes = members.number("extra_bytes");
  record.tokensPerSecond = members.number("tokens_per_s");
  record.all = json;
  return record;
}

TuneRecord readTune(const Json &json) {
  const Members members(json);
  TuneRecord record;
  record.attention = members.text("attention");
  record.pass = members.textOr("pass");
  record.target = members.text("target");
  record.machine = members.textOr("device", members.textOr("machine"));
  record.date = members.textOr("date");
  record.length = members.count("length");
  record.chosen = members.textOr("chosen");
  for (const Json &each : members.list("candidates")) {
    const Members candidate(each);
    TuneCandidate &added = record.candidates.emplace_back();
    added.schedule = candidate.text("schedule");
    added.outcome = candidate.text("outcome");
    added.ms = candidate.number("ms_median");
    added.spread = candidate.number("spread_ms");
    if (added.outcome == "measured" && !added.ms)
      throw Error(fmt::format("candidate '{}' is measured and has no 'ms_median'", added.schedule));
  }
  return record;
}

} // namespace

void readRecords(const std::string &file, const std::string &text, Records &records) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    try {
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (json.is_discarded())
        throw Error("expected one JSON object a line");
      if (json.is_object() && json.contains("kind") && json["kind"] == "tune")
        records.tunes.push_back(readTune(json));
      else
        records.benches.push_back(readBench(json));
    } catch (const Error &error) {
      throw Error(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
}

} // namespace yaglom::tools
