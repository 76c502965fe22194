// Schedules for processors that are worth measuring, and what they should cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/Traits.h"
#include "compiler/targets/cpu/Machine.h"
#include "yaglom/schedule.h"

#include <vector>

namespace yaglom::compiler::cpu {

/// Cycles for a token, by a model that knows registers, the latency of a multiply-add, and sizes of caches: good enough to order
/// candidates, no more.
double modelCost(const yaglom::Schedule &schedule, const Machine &machine, const Traits &traits);

/// Those that differ from `from` in one field.
std::vector<yaglom::Schedule> neighbours(const yaglom::Schedule &from, const Machine &machine, const Traits &traits);

} // namespace yaglom::compiler::cpu
