// yaglom cache: what compiled code is kept on disk, and removing it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Json.h"
#include "tools/Options.h"
#include "yaglom/cache.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <chrono>

namespace yaglom::tools {
namespace {

std::string age(int64_t since) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const int64_t seconds = std::max<int64_t>(0, now.count() - since);
  for (const auto &[unit, length] : {std::pair{"d", 86400}, std::pair{"h", 3600}, std::pair{"min", 60}})
    if (seconds >= length)
      return fmt::format("{} {}", seconds / length, unit);
  return fmt::format("{} s", seconds);
}

int list(const CacheFolder &folder, bool json) {
  const std::vector<CacheFolder::Entry> entries = folder.list().value();
  int64_t total = 0;
  for (const CacheFolder::Entry &entry : entries) {
    total += entry.bytes;
    if (json)
      fmt::print("{}\n", JsonObject()
                             .add("name", entry.name)
                             .add("kind", entry.kind)
                             .add("what", entry.what)
                             .add("bytes", entry.bytes)
                             .add("last_used", entry.lastUsed)
                             .text());
    else
      fmt::print("{:<12} {:>9} bytes  {:>8} ago  {}: {}\n", entry.name.substr(0, 12), entry.bytes, age(entry.lastUsed),
                 entry.kind, entry.what);
  }
  if (!json)
    fmt::print("{} entries, {} bytes, in {}\n", entries.size(), total, folder.path());
  return kSuccess;
}

int verify(const CacheFolder &folder) {
  const std::vector<CacheFolder::Damage> damaged = folder.verify().value();
  for (const CacheFolder::Damage &damage : damaged)
    fmt::print("{}: {}\n", damage.name, damage.reason);
  fmt::print("{} damaged\n", damaged.size());
  return damaged.empty() ? kSuccess : kFailure;
}

int printRemoved(const CacheFolder::Removed &removed) {
  fmt::print("{} files removed, {} bytes\n", removed.files, removed.bytes);
  return kSuccess;
}

/// Of this process; throws when there is none.
CacheFolder theFolder() {
  if (std::optional<CacheFolder> folder = CacheFolder::ofThisProcess())
    return *std::move(folder);
  throw Error("there is no cache folder: YAGLOM_CACHE_DIR is empty, or neither XDG_CACHE_HOME nor HOME is set");
}

} // namespace

void addCache(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand("cache", "What compiled code is kept on disk, and removing it");
  command->require_subcommand(1);
  const auto add = [&](const char *name, const char *description, const Action &does) {
    CLI::App *sub = command->add_subcommand(name, description);
    sub->callback([does, &action] { action = does; });
    return sub;
  };
  auto json = std::make_shared<bool>(false);
  add("list", "Every entry, the last used first", [json] { return list(theFolder(), *json); })
      ->add_flag("--json", *json, "One JSON object a line");
  add("verify", "Reads every entry; exits 1 when one is damaged", [] { return verify(theFolder()); });
  add("clear", "Removes every entry", [] { return printRemoved(theFolder().clear().value()); });
  auto maximum = std::make_shared<uint64_t>(0);
  add("prune", "Removes what was used least recently", [maximum] {
    return printRemoved(theFolder().prune(static_cast<int64_t>(*maximum)).value());
  })->add_option("--max-size", *maximum, "What may stay: 200MB")
      ->required()
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->type_name("SIZE");
  add("path", "Prints the folder", [] {
    fmt::print("{}\n", theFolder().path());
    return kSuccess;
  });
}

} // namespace yaglom::tools
