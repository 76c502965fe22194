// What GPUs can do at most, by their names: what a kernel's time is measured against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace yaglom::tools {

struct GpuPeaks {
  std::string_view name;  ///< a part of the driver's name for it
  double terabytes;       ///< a second, of its memory
  double tensorTeraflops; ///< a second, of bf16 products summed in float32, dense
};

/// The peaks of the GPU that the driver calls `name`, as its maker states them; nothing where we know of none.
std::optional<GpuPeaks> findPeaks(std::string_view name);

} // namespace yaglom::tools
