// Reads the header of a PTX text, and compares it with the driver and the GPU.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Ptx.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace yaglom::cuda {

namespace {

struct Release {
  int cuda;
  int ptx;
};

/// The CUDA release that brought each PTX version.
constexpr Release kReleases[] = {
    {10000, 63}, {10010, 64}, {10020, 65}, {11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75},
    {11060, 76}, {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85},
    {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91}, {13020, 92}, {13030, 93}, {13040, 94}, {13050, 95},
};

std::string ptxText(int version) { return fmt::format("{}.{}", version / 10, version % 10); }

/// Drops blanks and comments from the front.
void skipBlank(std::string_view &text) {
  while (!text.empty()) {
    if (const size_t blank = std::min(text.find_first_not_of(" \t\r\n"), text.size()))
      text.remove_prefix(blank);
    else if (text.starts_with("//"))
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    else if (text.starts_with("/*"))
      text.remove_prefix(std::min(text.find("*/", 2), text.size() - 2) + 2);
    else
      return;
  }
}

/// The word after `directive`, which must come next; empty if it does not.
std::string_view directive(std::string_view &text, std::string_view directive) {
  skipBlank(text);
  if (!text.starts_with(directive))
    return {};
  text.remove_prefix(directive.size());
  skipBlank(text);
  const std::string_view word = text.substr(0, text.find_first_of(" \t\r\n,/"));
  text.remove_prefix(word.size());
  return word;
}

/// The number at the front of `text`, which it drops; -1 if there is none.
int number(std::string_view &text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc())
    return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

/// Whether code for `target` ("sm_80", "sm_90a", "sm_100f") runs on an architecture; an unknown form is left to the
/// driver.
bool runsOn(std::string_view target, int computeCapability) {
  if (!target.starts_with("sm_"))
    return true;
  target.remove_prefix(3);
  const int wanted = number(target);
  if (target == "a")
    return computeCapability == wanted;
  if (target == "f")
    return computeCapability >= wanted && computeCapability / 10 == wanted / 10;
  return computeCapability >= wanted;
}

} // namespace

int highestPtxVersion(int driverVersion) {
  const auto *after = std::upper_bound(std::begin(kReleases), std::end(kReleases), driverVersion,
                                       [](int version, const Release &release) { return version < release.cuda; });
  return after == std::begin(kReleases) ? std::begin(kReleases)->ptx : std::prev(after)->ptx;
}

Result<PtxHeader> readPtxHeader(std::string_view ptx) {
  PtxHeader header;
  std::string_view version = directive(ptx, ".version");
  const int major = number(version);
  const bool dotted = version.starts_with('.');
  version.remove_prefix(dotted ? 1 : 0);
  const int minor = number(version);
  if (!dotted || major < 0 || minor < 0 || minor > 9 || !version.empty())
    return Error("this is not PTX: expected '.version MAJOR.MINOR' in the beginning");
  header.version = 10 * major + minor;
  header.target = directive(ptx, ".target");
  if (header.target.empty())
    return Error("this is not PTX: expected '.target ARCHITECTURE' after .version");
  return header;
}

Result<void> checkPtx(const PtxHeader &header, int driverVersion, const Device &device) {
  const int highest = highestPtxVersion(driverVersion);
  // A driver that is newer than the table may take newer PTX than it says.
  const bool known = driverVersion < std::prev(std::end(kReleases))->cuda + 10;
  if (known && header.version > highest)
    return Error(
        fmt::format("the PTX is of version {}; the driver is of CUDA {} and takes versions up to {}: update NVIDIA's "
                    "driver, or compile for a lower PTX version",
                    ptxText(header.version), versionText(driverVersion), ptxText(highest)));
  if (!runsOn(header.target, device.computeCapability))
    return Error(fmt::format("the PTX is for {}; CUDA device {} ({}) is {}: compile it for that architecture",
                             header.target, device.ordinal, device.name, device.architecture()));
  return {};
}

} // namespace yaglom::cuda
