// The Error class of the public API; out of line so that every shared object sees one typeinfo.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/result.h"

namespace yaglom {

// runtime_error copies into its own shared buffer, so there is nothing to move into.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Error::Error(std::string message) : std::runtime_error(message) {}
Error::~Error() = default;

} // namespace yaglom
