// Writing JSON.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Json.h"

#include <fmt/format.h>

#include <cmath>

namespace yaglom::tools {

std::string toJson(std::string_view text) {
  std::string result = "\"";
  for (char c : text)
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\u{:04x}", c);
    else
      result += c;
  return result + '"';
}

std::string toJson(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

JsonObject &JsonObject::addRaw(std::string_view name, std::string_view value) {
  if (!members.empty())
    members += ", ";
  members += fmt::format("{}: {}", toJson(name), value);
  return *this;
}

} // namespace yaglom::tools
