// Which build of yaglom and of LLVM this is: code that another build made is never run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace yaglom::runtime::cache {

/// One line: versions, and the build IDs that the linker computed from the contents of the library (or program) that this
/// code is in, and of LLVM's. Empty when this one was linked without (--build-id=none).
const std::string &buildIdentity();

} // namespace yaglom::runtime::cache
