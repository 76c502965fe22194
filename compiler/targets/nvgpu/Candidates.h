// Schedules for GPUs that are worth measuring, and what they should cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/Traits.h"
#include "compiler/targets/nvgpu/Device.h"
#include "yaglom/schedule.h"

#include <vector>

namespace yaglom::compiler::nvgpu {

/// Relative time for a token, by a model of one block: products, barriers, and copies that wait.
double modelCost(const yaglom::Schedule &schedule, const Device &device, const Traits &traits);

/// Those that differ from `from` in one field.
std::vector<yaglom::Schedule> neighbours(const yaglom::Schedule &from, const Device &device, const Traits &traits);

} // namespace yaglom::compiler::nvgpu
