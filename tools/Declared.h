// Which tensors a file for `yaglom run` may hold: those that the spec declares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/yaglom.h"

#include <set>
#include <string>

namespace yaglom::tools {

/// Names of all inputs, parameters, draws and noise that `spec` declares, in any of its attentions and maps. `options`
/// give the sizes, which sampler parameters depend on.
std::set<std::string> declaredTensors(const Spec &spec, const CompileOptions &options);

/// True for what a file may hold beside them: expected results and gradients, which `run` ignores.
bool isIgnored(const std::string &name);

} // namespace yaglom::tools
