// Finds the texts of messages in C++ sources.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace yaglom::errors {

/// String literals with a blank in them inside calls of error(...), warning(...), fail(...), failExpected(...),
/// fileError(...) and report(...); adjacent literals are one. `source` is C++ text.
std::vector<std::string> messageFormats(const std::string &source);

/// Whether some line of `text` holds the parts of a format string between its {} in their order.
bool occurs(const std::string &format, const std::string &text);

/// Messages that no text in a file can cause, each with its reason in the definition.
bool hasNoGoldenFile(const std::string &format);

} // namespace yaglom::errors
