// setCache() and CacheFolder: the public side of the cache on disk.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/Settings.h"

#include "runtime/cache/Identity.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>

namespace yaglom {
namespace runtime::cache {
namespace {

struct State {
  std::mutex mutex;
  CacheSettings settings;
};

/// Never destroyed: threads may compile while the process exits.
State &state() {
  static State *const instance = new State;
  return *instance;
}

std::optional<std::string> variable(const char *name) {
  const char *const value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): we set none
  return value ? std::optional<std::string>(value) : std::nullopt;
}

bool isDisabled() {
  const std::lock_guard lock(state().mutex);
  const auto &folder = state().settings.folder;
  return folder ? folder->empty() : variable("YAGLOM_CACHE_DIR") == "";
}

/// $XDG_CACHE_HOME must be absolute to count, by its specification.
std::optional<std::string> defaultFolder() {
  if (const auto folder = variable("YAGLOM_CACHE_DIR"))
    return folder->empty() ? std::nullopt : folder;
  if (const auto folder = variable("XDG_CACHE_HOME"); folder && folder->starts_with('/'))
    return *folder + "/yaglom";
  if (const auto home = variable("HOME"); home && home->starts_with('/'))
    return *home + "/.cache/yaglom";
  return std::nullopt;
}

std::optional<std::string> currentFolder() {
  const std::lock_guard lock(state().mutex);
  if (!state().settings.folder)
    return defaultFolder();
  return state().settings.folder->empty() ? std::nullopt : state().settings.folder;
}

} // namespace

std::optional<Store> openStore() {
  const std::optional<std::string> folder = currentFolder();
  if (!folder) {
    if (!isDisabled())
      warn("compiled code stays in memory: neither YAGLOM_CACHE_DIR nor XDG_CACHE_HOME nor HOME names a folder");
    return std::nullopt;
  }
  if (buildIdentity().empty()) {
    warn("this build of yaglom has no build ID, so nothing is kept on disk: link it with -Wl,--build-id");
    return std::nullopt;
  }
  Result<Store> store = Store::open(*folder);
  if (store)
    return std::move(*store);
  warn(fmt::format("the cache folder is not used, compiled code stays in memory: {}", store.error().what()));
  return std::nullopt;
}

int64_t maximumBytes() {
  const std::lock_guard lock(state().mutex);
  return state().settings.maximumBytes;
}

} // namespace runtime::cache

using namespace runtime::cache;

void setCache(CacheSettings settings) {
  const std::lock_guard lock(state().mutex);
  state().settings = std::move(settings);
}

std::optional<CacheFolder> CacheFolder::ofThisProcess() {
  const std::optional<std::string> folder = currentFolder();
  return folder ? std::optional<CacheFolder>(*folder) : std::nullopt;
}

Result<std::vector<CacheFolder::Entry>> CacheFolder::list() const {
  const Result<std::optional<Store>> store = Store::openExisting(folder);
  if (!store)
    return store.error();
  return *store ? (*store)->list() : std::vector<Entry>();
}

Result<std::vector<CacheFolder::Damage>> CacheFolder::verify() const {
  const Result<std::optional<Store>> store = Store::openExisting(folder);
  if (!store)
    return store.error();
  return *store ? (*store)->verify() : std::vector<Damage>();
}

Result<CacheFolder::Removed> CacheFolder::clear() const { return prune(0); }

Result<CacheFolder::Removed> CacheFolder::prune(int64_t maximumBytes) const {
  const Result<std::optional<Store>> store = Store::openExisting(folder);
  if (!store)
    return store.error();
  if (!*store)
    return Removed();
  const Removed damaged = (*store)->removeDamaged(), old = (*store)->prune(maximumBytes);
  return Removed{damaged.files + old.files, damaged.bytes + old.bytes};
}

} // namespace yaglom
