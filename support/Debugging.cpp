// Reading the two variables, each time anew: a program may set them for itself.
// SPDX-License-Identifier: Apache-2.0
#include "support/Debugging.h"

#include "support/Warning.h"

#include <cstdlib>
#include <string_view>

namespace yaglom {
namespace {

std::string variable(const char *name) {
  const char *const value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): we set none
  return value ? value : "";
}

} // namespace

std::optional<std::string> dumpFolder() {
  std::string folder = variable("YAGLOM_DUMP");
  return folder.empty() ? std::nullopt : std::optional<std::string>(std::move(folder));
}

Profile Profile::ofEnvironment() {
  Profile profile;
  const std::string value = variable("YAGLOM_PROFILE");
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(word.size() == rest.size() ? word.size() : word.size() + 1);
    if (word == "perf")
      profile.perf = true;
    else if (word == "jitdump")
      profile.jitdump = true;
    else if (word == "gdb")
      profile.gdb = true;
    else if (!word.empty())
      warn("YAGLOM_PROFILE: expected perf, jitdump or gdb, found '" + std::string(word) + "'");
  }
  return profile;
}

} // namespace yaglom
