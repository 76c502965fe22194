// The settings of this process: whether tuned schedules are used, and when they were last changed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/tune.h"

#include <cstdint>

namespace yaglom::runtime::tune {

/// That of setTuning(), or of YAGLOM_TUNE. A value that it cannot have is a warning.
TuneMode currentMode();
/// Seconds of a launch that tunes.
double launchBudget();

/// Changes whenever what a launch would find may have changed. From 1.
uint64_t generation();
void nextGeneration();

} // namespace yaglom::runtime::tune
