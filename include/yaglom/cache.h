// The cache on disk: compiled code, cubins and tuned schedules that outlive the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace yaglom {

/// Where this process keeps compiled code, beside its memory.
struct CacheSettings {
  /// Empty: nowhere. Unset: $YAGLOM_CACHE_DIR (empty: nowhere), else $XDG_CACHE_HOME/yaglom, else $HOME/.cache/yaglom.
  std::optional<std::string> folder;
  /// Bytes that the folder may hold; what was used least recently goes first.
  int64_t maximumBytes = int64_t{1} << 29;
};

/// For all of this process, from now on. Kernels that are compiled stay as they are.
YAGLOM_API void setCache(CacheSettings settings);

/// Told once for each cause, from the thread that met it: a folder (of the cache, of YAGLOM_DUMP) or a setting of the
/// environment that cannot be used, and why. The library itself prints nothing. Null: nobody is told.
YAGLOM_API void onWarning(std::function<void(const std::string &)> handler);

/// A folder with cached code. Every function may be called while other processes use the folder. What is no private file of
/// this user is refused: native code is loaded from here.
class YAGLOM_API CacheFolder {
public:
  /// That of this process: of setCache(), or the default; nothing when there is none.
  static std::optional<CacheFolder> ofThisProcess();
  explicit CacheFolder(std::string path) : folder(std::move(path)) {}

  const std::string &path() const { return folder; }

  struct Entry {
    std::string name;     ///< of the file
    std::string kind;     ///< "forward", "backward", "cubin", "schedule" ...
    std::string what;     ///< the attention and what it was compiled for
    int64_t bytes = 0;    ///< of the file
    int64_t lastUsed = 0; ///< seconds since 1970, within a minute
  };
  /// Every entry, the last used first; a folder that is not there has none. The Error says why the folder is refused.
  Result<std::vector<Entry>> list() const;

  struct Damage {
    std::string name, reason;
  };
  /// Reads every entry in full; returns those that would be refused, and compiled again.
  Result<std::vector<Damage>> verify() const;

  struct Removed {
    int64_t files = 0, bytes = 0;
  };
  /// Removes every entry.
  Result<Removed> clear() const;
  /// Removes what is damaged or left over, then what was used least recently, until at most `maximumBytes` are left.
  Result<Removed> prune(int64_t maximumBytes) const;

private:
  std::string folder;
};

} // namespace yaglom
