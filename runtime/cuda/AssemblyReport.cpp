// Reads the log of NVIDIA's assembler line by line.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/AssemblyReport.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace yaglom::cuda {

namespace {

/// The text between the first `before` and the next `after` behind it.
std::optional<std::string_view> between(std::string_view line, std::string_view before, std::string_view after) {
  const size_t start = line.find(before);
  if (start == std::string_view::npos)
    return std::nullopt;
  line.remove_prefix(start + before.size());
  return line.substr(0, after.empty() ? line.size() : line.find(after));
}

std::string_view trimmed(std::string_view text) {
  const size_t start = std::min(text.find_first_not_of(" \t\r"), text.size());
  text.remove_prefix(start);
  return text.substr(0, text.find_last_not_of(" \t\r") + 1);
}

/// The number that ends right before `unit` ("24 bytes smem"), 0 if there is none.
int numberBefore(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos)
    return 0;
  size_t start = end;
  while (start > 0 && line[start - 1] >= '0' && line[start - 1] <= '9')
    --start;
  int value = 0;
  std::from_chars(line.data() + start, line.data() + end, value);
  return value;
}

/// All constant banks: "364 bytes cmem[0], 8 bytes cmem[2]".
int constantBytes(std::string_view line) {
  int sum = 0;
  constexpr std::string_view kUnit = " bytes cmem[";
  for (size_t at = line.find(kUnit); at != std::string_view::npos; at = line.find(kUnit)) {
    sum += numberBefore(line, kUnit);
    line.remove_prefix(at + kUnit.size());
  }
  return sum;
}

/// "(C7510) Potential ...": a letter and digits in parentheses.
bool hasNumber(std::string_view text) {
  return text.size() > 4 && text[0] == '(' && text[1] == 'C' && text[2] >= '0' && text[2] <= '9';
}

class Parser {
public:
  explicit Parser(AssemblyReport &report) : report(report) {}

  void line(std::string_view line) {
    if (const auto name = between(line, "Compiling entry function '", "'")) {
      report.functions.push_back({.name = std::string(*name)});
      inEntry = false;
    } else if (const auto name = between(line, "Function properties for ", "")) {
      // Called functions have properties too, and no registers of their own.
      inEntry = !report.functions.empty() && trimmed(*name) == report.functions.back().name;
    } else if (line.find("bytes stack frame") != std::string_view::npos) {
      stack(line);
    } else if (const size_t used = line.find("Used "); used != std::string_view::npos) {
      resources(line.substr(used));
    } else {
      warning(line);
    }
  }

private:
  void stack(std::string_view line) {
    if (!inEntry)
      return;
    FunctionReport &function = report.functions.back();
    function.stackBytes = numberBefore(line, " bytes stack frame");
    function.spillStoreBytes = numberBefore(line, " bytes spill stores");
    function.spillLoadBytes = numberBefore(line, " bytes spill loads");
  }

  void resources(std::string_view line) {
    if (report.functions.empty())
      return;
    FunctionReport &function = report.functions.back();
    function.registers = numberBefore(line, " registers");
    function.barriers = numberBefore(line, " barriers");
    function.sharedBytes = numberBefore(line, " bytes smem");
    function.constantBytes = constantBytes(line);
  }

  void warning(std::string_view line) {
    const size_t colon = line.find(" : ");
    if (colon == std::string_view::npos)
      return;
    const std::string_view text = trimmed(line.substr(colon + 3));
    const bool warns = line.substr(0, colon).find("warning") != std::string_view::npos;
    if (!warns && !hasNumber(text))
      return;
    if (std::find(report.warnings.begin(), report.warnings.end(), text) == report.warnings.end())
      report.warnings.emplace_back(text);
  }

  AssemblyReport &report;
  bool inEntry = false; ///< the stack line that comes next is the entry's
};

} // namespace

const FunctionReport *AssemblyReport::find(std::string_view name) const {
  const auto found =
      std::find_if(functions.begin(), functions.end(), [&](const FunctionReport &one) { return one.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

AssemblyReport parseAssemblyLog(std::string log) {
  AssemblyReport report;
  report.log = std::move(log);
  Parser parser(report);
  for (std::string_view rest = report.log; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    parser.line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return report;
}

} // namespace yaglom::cuda
