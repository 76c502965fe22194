// The settings of this process: where code is kept, and who is told what goes wrong with that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/Store.h"

#include <optional>
#include <string>

namespace yaglom::runtime::cache {

/// The folder of this process, opened; nothing when there is none or it is refused, which is told once.
std::optional<Store> openStore();
int64_t maximumBytes();

/// Hands a warning to the user's handler, each text once.
void warn(const std::string &text);

} // namespace yaglom::runtime::cache
