// Shared by the unit tests of the front end: parsing, checking and printing a text in one call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "frontend/Printer.h"
#include "tests/unit/Catch.h"
#include "yaglom/builder.h"
#include "yaglom/spec.h"

#include <string>

namespace yaglom::test {

/// The messages of a spec called "t.phi", errors or warnings; empty when there are none.
inline std::string messages(const std::string &text) {
  Result<Spec> spec = Spec::parse(text, "t.phi");
  return spec ? spec->warnings() : spec.error().what();
}

/// The canonical text of a sound spec.
inline std::string printed(const std::string &text) {
  Result<Spec> spec = Spec::parse(text, "t.phi");
  return spec ? spec->print() : spec.error().what();
}

/// `value` printed as the body of a map of x; parses whatever is sound.
inline std::string expression(const std::string &value) {
  std::string text = printed("map f(x) = " + value + "\n");
  constexpr std::string_view before = "map f(x) = ";
  return text.starts_with(before) ? text.substr(before.size(), text.size() - before.size() - 1) : text;
}

inline bool contains(const std::string &text, std::string_view part) { return text.find(part) != std::string::npos; }

} // namespace yaglom::test
