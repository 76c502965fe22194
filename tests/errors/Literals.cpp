// A small scanner for message texts; it knows just enough of C++.
// SPDX-License-Identifier: Apache-2.0
#include "tests/errors/Literals.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace yaglom::errors {
namespace {

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Reads the literal that begins at `at`, and those that follow after blanks only. Leaves `at` behind them.
std::string literal(const std::string &source, size_t &at) {
  std::string value;
  while (source[at] == '"') {
    for (++at; source[at] != '"'; ++at) {
      at += source[at] == '\\';
      value += source[at];
    }
    ++at;
    size_t next = source.find_first_not_of(" \n", at);
    if (next == std::string::npos || source[next] != '"')
      break;
    at = next;
  }
  return value;
}

/// The word before the parenthesis at `open`.
std::string callee(const std::string &source, size_t open) {
  size_t begin = open;
  while (begin > 0 && isWord(source[begin - 1]))
    --begin;
  return source.substr(begin, open - begin);
}

bool says(const std::string &function) {
  constexpr const char *names[] = {"error", "warning", "fail", "failExpected", "fileError", "report"};
  return std::find(std::begin(names), std::end(names), function) != std::end(names);
}

/// The fixed parts of a format string.
std::vector<std::string> parts(const std::string &format) {
  std::vector<std::string> result(1);
  for (size_t at = 0; at < format.size(); ++at)
    if (size_t close = format[at] == '{' ? format.find('}', at) : std::string::npos; close != std::string::npos) {
      at = close;
      result.emplace_back();
    } else {
      result.back() += format[at];
    }
  return result;
}

} // namespace

std::vector<std::string> messageFormats(const std::string &source) {
  std::vector<std::string> formats;
  std::vector<bool> open; ///< for each open parenthesis: whether it belongs to a call that says something
  for (size_t at = 0; at < source.size();) {
    bool inside = std::find(open.begin(), open.end(), true) != open.end();
    char c = source[at];
    if (c == '/' && source.compare(at, 2, "//") == 0) {
      at = std::min(source.find('\n', at), source.size());
    } else if (c == '\'') {
      at += source[at + 1] == '\\' ? 4 : 3;
    } else if (c == '"') {
      std::string value = literal(source, at);
      if (inside && value.find(' ') != std::string::npos)
        formats.push_back(value);
    } else {
      if (c == '(')
        open.push_back(says(callee(source, at)));
      if (c == ')' && !open.empty())
        open.pop_back();
      ++at;
    }
  }
  return formats;
}

bool occurs(const std::string &format, const std::string &text) {
  std::istringstream lines(text);
  std::vector<std::string> fixed = parts(format);
  for (std::string line; std::getline(lines, line);) {
    size_t at = 0;
    for (const std::string &part : fixed) {
      at = line.find(part, at);
      if (at == std::string::npos)
        break;
      at += part.size();
    }
    if (at != std::string::npos)
      return true;
  }
  return false;
}

bool hasNoGoldenFile(const std::string &format) {
  constexpr const char *known[] = {
      "the file has {} bytes; a spec has at most 1 MiB", // the file would be larger than 1 MiB: unit test
      "more than {} operations in all after inlining",   // a spec of hundreds of KiB: unit test
      "slice takes a vector and two numbers",            // formulas of samplers are ours
      "component takes [Q, D] or [Q], and [Q]",
      "orthogonalize takes a vector",
      "the formula of '{}' is refused:n{}",
  };
  return std::find(std::begin(known), std::end(known), format) != std::end(known);
}

} // namespace yaglom::errors
