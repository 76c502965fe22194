// NVIDIA's data sheets.
// SPDX-License-Identifier: Apache-2.0
#include "tools/GpuPeaks.h"

namespace yaglom::tools {
namespace {

/// The first that fits counts: longer names stand before shorter ones.
constexpr GpuPeaks kPeaks[] = {
    {"B200", 8.0, 2250},
    {"B100", 8.0, 1750},
    {"GH200", 4.0, 990},
    {"H200", 4.8, 990},
    {"H100 NVL", 3.9, 835},
    {"H100 PCIe", 2.0, 756},
    {"H100", 3.35, 990},
    {"H800", 3.35, 990},
    {"H20", 4.0, 148},
    {"A100-PCIE-40GB", 1.555, 312},
    {"A100-SXM4-40GB", 1.555, 312},
    {"A100", 2.039, 312},
    {"A800", 2.039, 312},
    {"A40", 0.696, 149.7},
    {"A30", 0.933, 165},
    {"A10", 0.6, 125},
    {"L40S", 0.864, 362},
    {"L40", 0.864, 181},
    {"L4", 0.3, 121},
    {"RTX 5090", 1.792, 209.5},
    {"RTX 4090", 1.008, 165.2},
    {"RTX 3090", 0.936, 71},
};

} // namespace

std::optional<GpuPeaks> findPeaks(std::string_view name) {
  for (const GpuPeaks &peaks : kPeaks)
    if (name.find(peaks.name) != std::string_view::npos)
      return peaks;
  return std::nullopt;
}

} // namespace yaglom::tools
