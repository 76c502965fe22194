// The Error class of the public API; out of line so that every shared object sees one typeinfo.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/result.h"

namespace yaglom {

Error::Error(std::string message) : std::runtime_error(std::move(message)) {}
Error::~Error() = default;

} // namespace yaglom
