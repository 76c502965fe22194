// Built programs as bytes that another process can load: what the cache on disk keeps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"

#include <string>
#include <string_view>

namespace yaglom::compiler {

/// Everything of a built program that load() needs, its code included. P is Program, BackwardProgram or LossProgram.
template <typename P>
std::string toArtifact(const P &program);

/// The program, not yet loaded. Any bytes may come: the Error says what is wrong with them. Whether the code is what was
/// built here is not for this function to say; the cache checks that first.
template <typename P>
Result<P> fromArtifact(std::string_view bytes);

} // namespace yaglom::compiler
