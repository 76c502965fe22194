// The reference interpreter: what every attention, draw and loss of a spec is, in float64, by definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/reference/Array.h"
#include "compiler/targets/reference/Dual.h"
#include "frontend/Instance.h"

#include <cstdint>
#include <string>

namespace yaglom::reference {

// T is double, or Dual for the directional derivative along the tangents of the given tensors.
// Every function throws an Error that names the tensor when one is missing or has the wrong shape.
// H counts the key heads; tensors that are shared have no head axis.

/// Parameters at their initial values: "f.W" [H, ...].
Tensors<double> initialParameters(const Instance &instance, int64_t heads, uint64_t seed);

/// The standard normal noise of draws and losses: "f.W.noise", "r.noise" [H, rows, entries].
Tensors<double> noise(const Instance &instance, int64_t heads, uint64_t seed);

/// The random tensors of the attention, "f.W" [H, rows, width], from noise and sampler parameters among `tensors`.
/// One that is already among `tensors` overrides its sampler and is returned as it is.
template <typename T>
Tensors<T> draws(const Instance &instance, const Tensors<T> &tensors, int64_t heads);

/// O [B, H, N, width] from inputs [B, H, N, width] (or [B, H, N]), parameters, and draws (or their noise).
/// Query head h of Hq reads key head floor(h H / Hq). Tensors that are not needed are ignored.
template <typename T>
Array<T> forward(const Instance &instance, const Tensors<T> &tensors);

/// The loss `name`, one value a head: [H], or [1] when both samplers are shared. Needs "name.noise" and parameters.
template <typename T>
Array<T> loss(const Instance &instance, const std::string &name, const Tensors<T> &tensors, int64_t heads);

} // namespace yaglom::reference
