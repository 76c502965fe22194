// Where and when a measurement was made, for the lines that bench prints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace yaglom::tools {

/// The processor's name: "AMD EPYC 7351P 16-Core Processor"; empty where the system does not tell.
std::string processorName();

/// "2026-01-31T12:00:00Z"
std::string nowText();

} // namespace yaglom::tools
