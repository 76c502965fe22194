// All names are opened relative to the folder's descriptor, never through a link.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/Store.h"

#include "llvm/Support/FileSystem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace yaglom::runtime::cache {
namespace {

constexpr std::string_view kEntrySuffix = ".entry", kTemporarySuffix = ".tmp";
/// Locks are shared by keys whose digests begin alike: there is a bounded number of lock files, which are never deleted.
constexpr std::size_t kLockDigits = 2;
/// A file that is being written is younger than this; an older one was left by a process that died.
constexpr std::time_t kLeftOverSeconds = 3600;
/// The time of use is written this often at most.
constexpr std::time_t kUseSeconds = 60;
/// Pruning leaves this share of the maximum, so that not every new entry prunes.
constexpr double kPrunedShare = 0.9;

Error systemError(const std::string &what) { return Error(fmt::format("{}: {}", what, std::strerror(errno))); }

/// Why a file may not be used; nothing when it is this user's alone to write.
std::optional<std::string> whyRefused(const struct stat &status, mode_t kind) {
  if ((status.st_mode & S_IFMT) != kind)
    return kind == S_IFDIR ? "is no folder" : "is no regular file";
  if (status.st_uid != geteuid())
    return fmt::format("belongs to user {}, not to {}", status.st_uid, geteuid());
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return fmt::format("may be written by others (mode {:o})", status.st_mode & 07777);
  return std::nullopt;
}

/// While this lives, a file beyond the process's limit is an error (EFBIG) to this thread, and no deadly signal.
class NoFileSizeSignal {
public:
  NoFileSizeSignal() {
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    wasPending = isPending();
    pthread_sigmask(SIG_BLOCK, &signals, &before);
  }
  ~NoFileSizeSignal() {
    if (!wasPending && isPending()) {
      const timespec now{};
      sigtimedwait(&signals, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  NoFileSizeSignal(const NoFileSizeSignal &) = delete;
  NoFileSizeSignal &operator=(const NoFileSizeSignal &) = delete;

private:
  static bool isPending() {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGXFSZ) == 1;
  }
  sigset_t signals{}, before{};
  bool wasPending = false;
};

/// Makes `path` and the folders above it, private to this user. Returns 0, or the system's error number.
int makeFolders(const std::string &path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), S_IRWXU); // most are there already
  return mkdir(path.c_str(), S_IRWXU) == 0 ? 0 : errno;
}

} // namespace

bool writeAll(int file, std::string_view bytes) {
  const NoFileSizeSignal guard;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

FileDescriptor::~FileDescriptor() {
  if (number >= 0)
    close(number);
}

Result<std::optional<Store>> Store::openExisting(const std::string &path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) {
    if (errno == ENOENT)
      return std::optional<Store>();
    if (errno == ELOOP || errno == ENOTDIR) {
      struct stat status{};
      if (lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
        return Error(fmt::format("'{}' is a symbolic link", path));
    }
    return systemError(fmt::format("'{}' cannot be opened", path));
  }
  struct stat status{};
  if (fstat(folder.get(), &status) != 0)
    return systemError(fmt::format("'{}' cannot be examined", path));
  if (const auto why = whyRefused(status, S_IFDIR))
    return Error(fmt::format("'{}' {}", path, *why));
  return std::optional<Store>(Store(path, std::move(folder)));
}

Result<Store> Store::open(const std::string &path) {
  Result<std::optional<Store>> store = openExisting(path);
  if (store && !*store) {
    const int error = makeFolders(path);
    store = openExisting(path);
    if (store && !*store)
      return Error(fmt::format("'{}' cannot be made: {}", path, std::strerror(error)));
  }
  if (!store)
    return store.error();
  return std::move(**store);
}

/// The bytes of a file; `use` marks it as used. Empty bytes when there is none. The Error says that it is refused.
Result<std::string> Store::read(const std::string &name, bool use) const {
  // Not blocking: nobody waits for the other end of a pipe.
  const FileDescriptor file(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const std::string shown = fmt::format("'{}/{}'", path, name);
  if (!file) {
    if (errno == ENOENT)
      return std::string();
    return errno == ELOOP ? Error(shown + " is a symbolic link") : systemError(shown + " cannot be opened");
  }
  struct stat status{};
  if (fstat(file.get(), &status) != 0)
    return systemError(shown + " cannot be examined");
  if (const auto why = whyRefused(status, S_IFREG))
    return Error(fmt::format("{} {}", shown, *why));
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(shown + " cannot be read");
    if (count == 0)
      break; // it became shorter: the checksum will say so
    at += static_cast<std::size_t>(count);
  }
  bytes.resize(at);
  if (use && std::time(nullptr) - status.st_mtime > kUseSeconds)
    futimens(file.get(), nullptr); // on a read-only file system nothing is pruned either
  return bytes;
}

Result<std::optional<std::string>> Store::find(const Key &key) const {
  const std::string name = key.digest().append(kEntrySuffix);
  const Result<std::string> bytes = read(name, /*use=*/true);
  if (!bytes)
    return bytes.error();
  if (bytes->empty())
    return std::optional<std::string>();
  const Result<Entry> entry = parseEntry(*bytes);
  if (!entry || entry->key != key.text) {
    unlinkat(folder.get(), name.c_str(), 0);
    return std::optional<std::string>();
  }
  return std::optional<std::string>(entry->payload);
}

Result<void> Store::write(const std::string &name, std::string_view bytes) const {
  const std::string shown = fmt::format("'{}' cannot be written to", path);
  // A unique name beside the final one, so that renaming is one step on one file system.
  int number = -1;
  llvm::SmallString<128> temporary;
  if (const std::error_code code = llvm::sys::fs::createUniqueFile(
          llvm::Twine(path) + "/" + name + "-%%%%%%%%" + kTemporarySuffix.data(), number, temporary,
          llvm::sys::fs::OF_None, llvm::sys::fs::owner_read | llvm::sys::fs::owner_write))
    return Error(fmt::format("{}: {}", shown, code.message()));
  const FileDescriptor file(number);
  if (writeAll(file.get(), bytes) && rename(temporary.c_str(), fmt::format("{}/{}", path, name).c_str()) == 0)
    return {};
  const Error error = systemError(shown);
  unlink(temporary.c_str());
  return error;
}

Result<void> Store::put(const Key &key, std::string_view payload, int64_t maximumBytes) const {
  const std::string bytes = toBytes(key, payload);
  if (static_cast<int64_t>(bytes.size()) > maximumBytes)
    return {};
  if (Result<void> written = write(key.digest().append(kEntrySuffix), bytes); !written)
    return written;
  int64_t total = 0;
  for (const CacheFolder::Entry &file : files(kEntrySuffix))
    total += file.bytes;
  if (total > maximumBytes)
    prune(static_cast<int64_t>(kPrunedShare * static_cast<double>(maximumBytes)));
  return {};
}

Lock Store::lock(const Key &key, double seconds) const {
  const std::string name = "lock-" + key.digest().substr(0, kLockDigits);
  Lock file(openat(folder.get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file)
    return Lock();
  // Asking again and again, and not waiting in the system: a holder that is stopped, or has a child that lives on with its
  // descriptor, must not stop us for ever.
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto pause = std::chrono::milliseconds(1); flock(file.get(), LOCK_EX | LOCK_NB) != 0;
       pause = std::min(2 * pause, std::chrono::milliseconds(20))) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || Clock::now() >= end)
      return Lock();
    std::this_thread::sleep_for(pause);
  }
  return file;
}

/// Files with names of this end, the last used first; what is in them is not looked at.
std::vector<CacheFolder::Entry> Store::files(std::string_view suffix) const {
  std::vector<CacheFolder::Entry> found;
  const int again = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); // closedir() closes it
  DIR *const stream = again < 0 ? nullptr : fdopendir(again);
  if (!stream)
    return found;
  while (const dirent *item = readdir(stream)) { // NOLINT(concurrency-mt-unsafe): of a stream of our own
    struct stat status{};
    if (std::string_view(item->d_name).ends_with(suffix) &&
        fstatat(folder.get(), item->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) // else removed meanwhile
      found.push_back({item->d_name, "", "", status.st_size, status.st_mtime});
  }
  closedir(stream);
  std::sort(found.begin(), found.end(),
            [](const auto &a, const auto &b) { return std::tie(b.lastUsed, a.name) < std::tie(a.lastUsed, b.name); });
  return found;
}

std::vector<CacheFolder::Entry> Store::list() const {
  std::vector<CacheFolder::Entry> entries = files(kEntrySuffix);
  for (CacheFolder::Entry &shown : entries) {
    const Result<std::string> bytes = read(shown.name, /*use=*/false);
    const Result<Entry> entry = bytes ? parseEntry(*bytes) : bytes.error();
    shown.kind = entry ? entry->kind() : "damaged";
    shown.what = entry ? entry->what() : entry.error().what();
  }
  return entries;
}

std::vector<std::pair<Key, std::string>> Store::entriesOf(std::string_view kind) const {
  std::vector<std::pair<Key, std::string>> found;
  for (const CacheFolder::Entry &file : files(kEntrySuffix)) {
    const Result<std::string> bytes = read(file.name, /*use=*/false);
    const Result<Entry> entry = bytes ? parseEntry(*bytes) : bytes.error();
    if (entry && entry->kind() == kind)
      found.emplace_back(Key(std::string(entry->key)), std::string(entry->payload));
  }
  return found;
}

std::vector<CacheFolder::Damage> Store::verify() const {
  std::vector<CacheFolder::Damage> damaged;
  for (const auto &[name, kind, what, size, lastUsed] : files(kEntrySuffix)) {
    const Result<std::string> bytes = read(name, /*use=*/false);
    const Result<Entry> entry = bytes ? parseEntry(*bytes) : bytes.error();
    if (!entry)
      damaged.push_back({name, entry.error().what()});
    else if (digestText(entry->key).append(kEntrySuffix) != name)
      damaged.push_back({name, "the file has the name of another key"});
  }
  return damaged;
}

/// Counts what it removes.
void Store::remove(const std::string &name, int64_t bytes, CacheFolder::Removed &removed) const {
  if (unlinkat(folder.get(), name.c_str(), 0) != 0)
    return;
  ++removed.files;
  removed.bytes += bytes;
}

CacheFolder::Removed Store::removeDamaged() const {
  CacheFolder::Removed removed;
  for (const CacheFolder::Damage &damage : verify()) {
    struct stat status{};
    if (fstatat(folder.get(), damage.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      remove(damage.name, status.st_size, removed);
  }
  return removed;
}

CacheFolder::Removed Store::prune(int64_t maximumBytes) const {
  CacheFolder::Removed removed;
  for (const CacheFolder::Entry &file : files(kTemporarySuffix))
    if (std::time(nullptr) - file.lastUsed > kLeftOverSeconds)
      remove(file.name, file.bytes, removed);
  int64_t total = 0;
  for (const CacheFolder::Entry &file : files(kEntrySuffix))
    if ((total += file.bytes) > maximumBytes)
      remove(file.name, file.bytes, removed);
  return removed;
}

} // namespace yaglom::runtime::cache
