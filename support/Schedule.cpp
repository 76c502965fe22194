// The fields of a Schedule, listed once: their names, ranges and text.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iterator>
#include <optional>
#include <vector>

namespace yaglom {
namespace {

struct Field {
  std::string_view name;
  int64_t Schedule::*value;
  int64_t most;
  bool isPowerOfTwo = false;
};

constexpr std::string_view kTile = "tile", kNone = "none";
constexpr int64_t kMostRows = 32, kMostVectors = 8, kMostStages = 2;

/// Every field but the register tile, in the order of the text.
constexpr Field kFields[] = {
    {"chunk", &Schedule::chunk, 4096},       {"granule", &Schedule::granule, 4096},
    {"pointwise", &Schedule::pointwise, 32}, {"unroll", &Schedule::unroll, 64},
    {"prefetch", &Schedule::prefetch, 64},   {"segments", &Schedule::segments, 64},
    {"warps", &Schedule::warps, 32, true},   {"stages", &Schedule::stages, kMostStages},
};

std::optional<int64_t> toNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

Error expected(std::string_view name, const std::string &what, std::string_view found) {
  return Error(fmt::format("schedule: expected {} for '{}', found '{}'", what, name, found));
}

std::string rangeOf(const Field &field) {
  const char *const orNone = field.value == &Schedule::prefetch ? ", or none" : "";
  const char *const kind = field.isPowerOfTwo ? "power of two" : "number";
  return fmt::format("a {} from 1 to {} (0: the compiler chooses){}", kind, field.most, orNone);
}

std::string unknownField(std::string_view name) {
  std::vector<std::string_view> names{kTile};
  for (const Field &field : kFields)
    names.push_back(field.name);
  return fmt::format("schedule: there is no field '{}'; there are {}", name, fmt::join(names, ", "));
}

Result<void> setField(Schedule &schedule, std::string_view name, std::string_view value) {
  if (name == kTile) {
    const std::size_t times = value.find('x');
    const auto rows = toNumber(value.substr(0, times));
    const auto vectors = times == std::string_view::npos ? std::nullopt : toNumber(value.substr(times + 1));
    if (!rows || !vectors)
      return expected(name, "ROWSxVECTORS, like 6x2", value);
    schedule.tileRows = *rows;
    schedule.tileVectors = *vectors;
    return {};
  }
  for (const Field &field : kFields) {
    if (field.name != name)
      continue;
    const bool isNone = value == kNone && field.value == &Schedule::prefetch;
    const auto number = isNone ? Schedule::kNoPrefetch : toNumber(value);
    if (!number || (*number < 0 && !isNone))
      return expected(name, rangeOf(field), value);
    schedule.*field.value = *number;
    return {};
  }
  return Error(unknownField(name));
}

} // namespace

std::string Schedule::toText() const {
  std::vector<std::string> words;
  for (const Field &field : kFields) {
    if (field.value == &Schedule::pointwise && (tileRows || tileVectors)) // where the tile stands
      words.push_back(fmt::format("{}={}x{}", kTile, tileRows, tileVectors));
    const int64_t value = this->*field.value;
    if (value == kNoPrefetch)
      words.push_back(fmt::format("{}={}", field.name, kNone));
    else if (value)
      words.push_back(fmt::format("{}={}", field.name, value));
  }
  return words.empty() ? "default" : fmt::format("{}", fmt::join(words, " "));
}

Result<Schedule> Schedule::parse(std::string_view text) {
  constexpr std::string_view kBlanks = " ,\t\n";
  Schedule schedule;
  if (text == "default")
    return schedule;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const std::string_view word = text.substr(at, text.find_first_of(kBlanks, at) - at);
    at += word.size();
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      return Error(fmt::format("schedule: expected NAME=VALUE, found '{}'", word));
    if (Result<void> set = setField(schedule, word.substr(0, equals), word.substr(equals + 1)); !set)
      return set.error();
  }
  if (Result<void> checked = schedule.check(); !checked)
    return checked.error();
  return schedule;
}

Result<void> Schedule::check() const {
  for (const Field &field : kFields) {
    const int64_t value = this->*field.value;
    const bool isNone = value == kNoPrefetch && field.value == &Schedule::prefetch;
    if ((value < 0 && !isNone) || value > field.most || (field.isPowerOfTwo && (value & (value - 1))))
      return expected(field.name, rangeOf(field), std::to_string(value));
  }
  if (!tileRows && !tileVectors)
    return {};
  const std::string tile = fmt::format("{}x{}", tileRows, tileVectors);
  if (tileRows < 1 || tileRows > kMostRows)
    return expected(kTile, fmt::format("1 to {} rows", kMostRows), tile);
  if (tileVectors < 1 || tileVectors > kMostVectors || (tileVectors & (tileVectors - 1)))
    return expected(kTile, "1, 2, 4 or 8 vectors in a row", tile);
  return {};
}

} // namespace yaglom
