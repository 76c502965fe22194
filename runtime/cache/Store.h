// Files of a cache folder: read, written and removed so that other processes, a full disk or a stranger do no harm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/Entry.h"
#include "yaglom/cache.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace yaglom::runtime::cache {

/// An open file, closed when this goes.
class FileDescriptor {
public:
  explicit FileDescriptor(int number = -1) : number(number) {}
  FileDescriptor(FileDescriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~FileDescriptor();
  explicit operator bool() const { return number >= 0; }
  int get() const { return number; }

private:
  int number;
};

/// Writes all of `bytes`, whatever pieces the system takes them in. False on an error, which errno tells; a file beyond the
/// process's limit is one, and no deadly signal.
bool writeAll(int file, std::string_view bytes);

/// The only one who compiles for a key, as long as this lives. It is a flock(2) on a file that stays, so the kernel of the
/// operating system takes it away from a process that dies.
using Lock = FileDescriptor;

/// One folder, checked at every use: a directory of this user that nobody else may write to. Nothing is kept open between
/// two calls, so a process may fork at any time.
class Store {
public:
  /// The folder is made when there is none. The Error says why it is refused.
  static Result<Store> open(const std::string &path);
  /// The same, but the folder stays as it is: nothing when there is none.
  static Result<std::optional<Store>> openExisting(const std::string &path);

  /// What is kept under `key`, which is marked as used. Nothing when there is no such entry or it is damaged (then it is
  /// removed); the Error says that its file is refused.
  Result<std::optional<std::string>> find(const Key &key) const;
  /// Keeps `payload`; a reader sees all of it or nothing. Removes old entries when there are more than `maximumBytes`.
  Result<void> put(const Key &key, std::string_view payload, int64_t maximumBytes) const;
  /// Waits until no other thread or process holds the lock of `key`, but no longer than `seconds`: a lock without a file is
  /// the answer then, or when the folder is read-only.
  Lock lock(const Key &key, double seconds) const;

  std::vector<CacheFolder::Entry> list() const;
  /// What is kept of one kind, with the keys; damaged entries are left out.
  std::vector<std::pair<Key, std::string>> entriesOf(std::string_view kind) const;
  std::vector<CacheFolder::Damage> verify() const;
  /// Removes what is left over, then what was used least recently, until at most `maximumBytes` are left.
  CacheFolder::Removed prune(int64_t maximumBytes) const;
  /// Removes what verify() finds.
  CacheFolder::Removed removeDamaged() const;

private:
  explicit Store(std::string path, FileDescriptor folder) : path(std::move(path)), folder(std::move(folder)) {}

  Result<std::string> read(const std::string &name, bool use) const;
  void remove(const std::string &name, int64_t bytes, CacheFolder::Removed &removed) const;
  Result<void> write(const std::string &name, std::string_view bytes) const;
  std::vector<CacheFolder::Entry> files(std::string_view suffix) const;

  std::string path;
  FileDescriptor folder;
};

} // namespace yaglom::runtime::cache
