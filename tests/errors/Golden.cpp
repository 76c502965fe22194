// Reads the golden files of messages, runs the front end on them, and makes docs/errors.md from them.
// SPDX-License-Identifier: Apache-2.0
#include "tests/errors/Golden.h"
#include "frontend/Instance.h"
#include "yaglom/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace yaglom::errors {
namespace {

std::string readFile(const std::filesystem::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The output of `#! instantiate NAME d=16 ...`, if the spec has such a line.
std::string instantiated(const Spec &spec, const std::string &text) {
  constexpr std::string_view mark = "#! instantiate ";
  size_t at = text.find(mark);
  if (at == std::string::npos)
    return "";
  std::istringstream words(text.substr(at + mark.size(), text.find('\n', at) - at - mark.size()));
  std::string name, word;
  words >> name;
  DimValues values;
  while (words >> word)
    values[word.substr(0, word.find('='))] = std::stoll(word.substr(word.find('=') + 1));
  Result<Instance> instance = instantiate(spec.file(), name, values);
  return instance ? "" : instance.error().what();
}

} // namespace

std::vector<Case> readCases(const std::string &folder) {
  std::vector<Case> cases;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".phi")
      continue;
    Case c;
    c.name = entry.path().filename();
    std::string text = readFile(entry.path());
    size_t mark = text.starts_with("#>") ? 0 : text.find("\n#>");
    c.spec = text.substr(0, mark == std::string::npos ? mark : mark + 1);
    std::istringstream lines(text.substr(c.spec.size()));
    for (std::string line; std::getline(lines, line);)
      c.expected += line.substr(std::min<size_t>(line.size(), 3)) + "\n";
    cases.push_back(std::move(c));
  }
  std::sort(cases.begin(), cases.end(), [](const Case &a, const Case &b) { return a.name < b.name; });
  return cases;
}

std::string actual(const Case &c) {
  Result<Spec> spec = Spec::parse(c.spec, c.name);
  if (!spec)
    return spec.error().what();
  return spec->warnings() + instantiated(*spec, c.spec);
}

std::string fileText(const Case &c, const std::string &output) {
  std::string text = c.spec;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    text += line.empty() ? "#>\n" : "#> " + line + "\n";
  return text;
}

std::string document(const std::vector<Case> &cases) {
  // Hostile specs of thousands of operators teach nobody.
  constexpr size_t longest = 600;
  std::string text = "# Messages\n\n"
                     "Every message of the front end, beside a spec that causes it. Generated from `tests/errors` by\n"
                     "`update-errors`; do not edit.\n";
  for (const Case &c : cases) {
    if (c.spec.size() > longest)
      continue;
    text += fmt::format("\n## {}\n\n```text\n{}```\n\n```text\n{}```\n", c.name.substr(0, c.name.size() - 4), c.spec,
                        c.expected);
  }
  return text;
}

} // namespace yaglom::errors
