// The settings of this process: where code is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/Store.h"
#include "support/Warning.h"

#include <optional>
#include <string>

namespace yaglom::runtime::cache {

/// The folder of this process, opened; nothing when there is none or it is refused, which is told once.
std::optional<Store> openStore();
int64_t maximumBytes();

} // namespace yaglom::runtime::cache
