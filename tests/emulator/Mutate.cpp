// Mutants of a PTX text.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace yaglom::emulator::test {
namespace {

std::string trim(const std::string &line) {
  const std::size_t begin = line.find_first_not_of(" \t"), end = line.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
}

/// A line with one whole instruction that is no control flow.
bool isInstruction(const std::string &line) {
  std::string text = trim(line);
  if (text.starts_with("@")) {
    const std::size_t blank = text.find_first_of(" \t");
    text = blank == std::string::npos ? "" : trim(text.substr(blank));
  }
  if (text.empty() || text.back() != ';' || text[0] < 'a' || text[0] > 'z')
    return false;
  for (const char *control : {"bra", "brx", "ret", "exit", "trap"})
    if (text.starts_with(control))
      return false;
  return true;
}

std::vector<std::string> splitLines(const std::string &text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Places of whole decimal numbers among the operands: behind a blank, a comma or a sign, not part of a name.
std::vector<std::pair<std::size_t, std::size_t>> numbersOf(const std::string &line) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  const std::size_t operands = line.find_first_of(" \t", line.find_first_not_of(" \t"));
  for (std::size_t at = operands; at != std::string::npos && at < line.size(); ++at) {
    const bool starts = std::isdigit(static_cast<unsigned char>(line[at])) &&
                        std::string(" \t,+-[").find(line[at - 1]) != std::string::npos;
    if (!starts)
      continue;
    std::size_t end = at;
    while (end < line.size() && std::isalnum(static_cast<unsigned char>(line[end])))
      ++end;
    const std::string digits = line.substr(at, end - at);
    if (digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos)
      found.emplace_back(at, end - at);
    at = end;
  }
  return found;
}

std::string changeNumber(const std::string &line, std::mt19937_64 &random) {
  const auto numbers = numbersOf(line);
  if (numbers.empty())
    return line;
  const auto [at, length] = numbers[random() % numbers.size()];
  const uint64_t value = std::stoull(line.substr(at, length));
  const uint64_t changed = random() % 2 ? value + 1 : value ^ (uint64_t{1} << random() % (value < 16 ? 2 : 5));
  return line.substr(0, at) + std::to_string(changed) + line.substr(at + length);
}

std::string exchangeOperation(const std::string &line) {
  static constexpr std::pair<const char *, const char *> kPairs[] = {
      {"add.", "sub."}, {"and.b", "or.b"},    {"xor.b", "or.b"},
      {"shl.", "shr."}, {".lt.", ".le."},     {".gt.", ".ge."},
      {".eq.", ".ne."}, {"min.", "max."},     {"mul.rn.f32", "add.rn.f32"},
      {"sin.", "cos."}, {".bfly.", ".down."}, {".x4.trans", ".x4"}};
  for (const auto &[a, b] : kPairs)
    for (const auto &[from, to] :
         {std::pair<std::string, std::string>(a, b), std::pair<std::string, std::string>(b, a)})
      if (const std::size_t at = line.find(from); at != std::string::npos)
        return line.substr(0, at) + to + line.substr(at + from.size());
  return line;
}

} // namespace

Mutant mutate(const std::string &text, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> lines = splitLines(text);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (isInstruction(lines[i]))
      places.push_back(i);
  if (places.empty())
    return {text, "nothing to change", 0};
  const std::size_t at = places[random() % places.size()];
  const std::string before = lines[at];
  std::string what;
  switch (random() % 4) {
  case 0:
    if (at + 1 < lines.size() && isInstruction(lines[at + 1])) {
      std::swap(lines[at], lines[at + 1]);
      what = fmt::format("exchanged with the next: {}", trim(before));
    }
    break;
  case 1:
    lines[at] = changeNumber(before, random);
    break;
  case 2:
    lines[at] = exchangeOperation(before);
    break;
  default:
    break;
  }
  if (what.empty() && lines[at] != before)
    what = fmt::format("changed: {} to {}", trim(before), trim(lines[at]));
  if (what.empty()) {
    lines[at].clear();
    what = fmt::format("deleted: {}", trim(before));
  }
  Mutant mutant;
  for (std::size_t i = 0; i < lines.size(); ++i)
    mutant.text += (i ? "\n" : "") + lines[i];
  mutant.line = static_cast<uint32_t>(at + 1);
  mutant.description = fmt::format("line {}: {}", mutant.line, what);
  return mutant;
}

} // namespace yaglom::emulator::test
