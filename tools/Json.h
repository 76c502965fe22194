// Writing JSON: strings and numbers, and flat objects that keep the order of their members.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace yaglom::tools {

/// `text` in quotes, escaped.
std::string toJson(std::string_view text);
/// The shortest text that reads back the same; infinity and NaN, which JSON has not, are null.
std::string toJson(double value);

/// `{"ms_median": 1.5, "spec": "performer.phi"}`
class JsonObject {
public:
  JsonObject &add(std::string_view name, std::string_view value) { return addRaw(name, toJson(value)); }
  JsonObject &add(std::string_view name, const char *value) { return add(name, std::string_view(value)); }
  JsonObject &add(std::string_view name, double value) { return addRaw(name, toJson(value)); }
  JsonObject &add(std::string_view name, bool value) { return addRaw(name, value ? "true" : "false"); }
  JsonObject &add(std::string_view name, int64_t value) { return addRaw(name, std::to_string(value)); }
  /// `value` is JSON already.
  JsonObject &addRaw(std::string_view name, std::string_view value);

  std::string text() const { return "{" + members + "}"; }

private:
  std::string members;
};

} // namespace yaglom::tools
