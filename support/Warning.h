// Warnings of the library, which itself prints nothing: to the handler of onWarning().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace yaglom {

/// Hands a warning to the user's handler, each text once.
void warn(const std::string &text);

} // namespace yaglom
