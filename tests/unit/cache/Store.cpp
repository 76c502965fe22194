// Files of a cache folder: who may write them, what happens when there is no room, and what goes first.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/Store.h"
#include "tests/Folder.h"
#include "tests/unit/Catch.h"

#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace yaglom;
using namespace yaglom::tests;
using runtime::cache::Key;
using runtime::cache::Store;

namespace {

constexpr int64_t kPlenty = 1 << 20;

Key key(const std::string &name) { return {"test", name, "text of " + name}; }

/// Where the entry of `key` is.
std::string fileOf(const Folder &folder, const Key &key) { return folder.path + "/" + key.digest() + ".entry"; }

mode_t modeOf(const std::string &path) {
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void lastUsed(const std::string &path, std::time_t when) {
  const timespec times[2] = {{when, 0}, {when, 0}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

std::string refusal(const std::string &path) {
  const Result<Store> store = Store::open(path);
  return store ? std::string() : store.error().what();
}

} // namespace

TEST_CASE("what is put under a key is found, and is private") {
  const Folder outer;
  const std::string path = outer.path + "/deep/cache";
  const Store store = Store::open(path).value();
  CHECK_FALSE(*store.find(key("a")));
  REQUIRE(store.put(key("a"), "payload", kPlenty));
  CHECK(store.find(key("a")).value() == "payload");
  CHECK_FALSE(*store.find(key("b")));
  REQUIRE(store.put(key("a"), "another", kPlenty));
  CHECK(store.find(key("a")).value() == "another");
  CHECK(modeOf(path) == 0700);
  CHECK(modeOf(path + "/" + key("a").digest() + ".entry") == 0600);
  const auto entries = CacheFolder(path).list().value();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].kind == "test");
  CHECK(entries[0].what == "a");
}

TEST_CASE("a folder that others may write to, or that is none, is refused") {
  const Folder folder;
  CHECK(refusal(folder.path).empty());
  chmod(folder.path.c_str(), 0770);
  CHECK(refusal(folder.path) == "'" + folder.path + "' may be written by others (mode 770)");
  chmod(folder.path.c_str(), 0702);
  CHECK(refusal(folder.path) == "'" + folder.path + "' may be written by others (mode 702)");
  chmod(folder.path.c_str(), 0755);
  CHECK(refusal(folder.path).empty());

  const Folder other;
  const std::string link = other.path + "/link", file = other.path + "/file";
  REQUIRE(symlink(folder.path.c_str(), link.c_str()) == 0);
  CHECK(refusal(link) == "'" + link + "' is a symbolic link");
  writeFile(file, "");
  CHECK(refusal(file) == "'" + file + "' cannot be opened: Not a directory");
  CHECK(refusal(file + "/below").starts_with("'" + file + "/below' cannot be opened"));
}

TEST_CASE("a file that others may write to, a link and a pipe are refused and stay") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  const std::string path = fileOf(folder, key("a"));
  const auto why = [&] { return std::string(store.find(key("a")).error().what()); };
  REQUIRE(store.put(key("a"), "payload", kPlenty));
  chmod(path.c_str(), 0660);
  CHECK(why() == "'" + path + "' may be written by others (mode 660)");
  chmod(path.c_str(), 0600);
  CHECK(store.find(key("a")).value() == "payload");

  const std::string aside = folder.path + "/aside";
  rename(path.c_str(), aside.c_str());
  REQUIRE(symlink(aside.c_str(), path.c_str()) == 0);
  CHECK(why() == "'" + path + "' is a symbolic link");
  unlink(path.c_str());
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(why() == "'" + path + "' is no regular file"); // and it does not wait for a writer
  CHECK(CacheFolder(folder.path).verify().value().size() == 1);
}

TEST_CASE("what belongs to another user is refused") {
  if (geteuid() != 0) {
    WARN("needs root, who can give files away");
    return;
  }
  constexpr uid_t kNobody = 65534;
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  REQUIRE(store.put(key("a"), "payload", kPlenty));
  const std::string path = fileOf(folder, key("a"));
  REQUIRE(chown(path.c_str(), kNobody, kNobody) == 0);
  CHECK(std::string(store.find(key("a")).error().what()) == "'" + path + "' belongs to user 65534, not to 0");
  REQUIRE(chown(folder.path.c_str(), kNobody, kNobody) == 0);
  CHECK(refusal(folder.path) == "'" + folder.path + "' belongs to user 65534, not to 0");
}

TEST_CASE("a damaged entry, and one under another's name, is removed and not found") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  REQUIRE(store.put(key("a"), "payload", kPlenty));
  const std::string a = fileOf(folder, key("a")), b = fileOf(folder, key("b")), bytes = readFile(a);
  writeFile(b, bytes);
  chmod(b.c_str(), 0600);
  CHECK(CacheFolder(folder.path).verify().value().front().reason == "the file has the name of another key");
  CHECK(CacheFolder(folder.path).prune(kPlenty).value().files == 1);
  CHECK(CacheFolder(folder.path).verify().value().empty());
  CHECK(store.find(key("a")).value() == "payload");
  writeFile(b, bytes);
  chmod(b.c_str(), 0600);
  CHECK_FALSE(*store.find(key("b")));
  CHECK(access(b.c_str(), F_OK) != 0);
  for (std::size_t length = 1; length < bytes.size(); length *= 2) {
    writeFile(a, bytes.substr(0, length));
    CHECK(CacheFolder(folder.path).verify().value().size() == 1);
    CHECK_FALSE(*store.find(key("a")));
    CHECK(access(a.c_str(), F_OK) != 0);
  }
}

TEST_CASE("a file that is full leaves nothing behind and kills nobody") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Result<void> stored = store.put(key("a"), std::string(5000, 'x'), kPlenty);
  sigset_t pending;
  sigpending(&pending);
  setrlimit(RLIMIT_FSIZE, &before);
  REQUIRE_FALSE(stored);
  CHECK(std::string(stored.error().what()) == "'" + folder.path + "' cannot be written to: File too large");
  CHECK(sigismember(&pending, SIGXFSZ) == 0);
  CHECK(folder.files("").empty());
  CHECK(store.put(key("a"), std::string(5000, 'x'), kPlenty));
}

TEST_CASE("what was used least recently goes first") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  const std::string payload(1000, 'x');
  const std::time_t now = std::time(nullptr);
  for (int i = 0; i < 10; ++i) {
    REQUIRE(store.put(key(std::to_string(i)), payload, kPlenty));
    lastUsed(fileOf(folder, key(std::to_string(i))), now - 10000 + i);
  }
  REQUIRE(*store.find(key("0"))); // used now
  const int64_t each = static_cast<int64_t>(readFile(fileOf(folder, key("0"))).size());
  REQUIRE(store.put(key("new"), payload, 5 * each)); // leaves nine tenths: four
  std::vector<std::string> left;
  for (const CacheFolder::Entry &entry : store.list())
    left.push_back(entry.what);
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::string>{"0", "8", "9", "new"});

  REQUIRE(store.put(key("large"), std::string(10000, 'x'), 5 * each)); // larger than all: not kept
  CHECK(store.list().size() == 4);
  const auto removed = CacheFolder(folder.path).clear().value();
  CHECK(removed.files == 4);
  CHECK(removed.bytes >= 4 * 1000);
  CHECK(store.list().empty());
}

TEST_CASE("what a dead process left is pruned, what another is writing stays") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  writeFile(folder.path + "/old.tmp", "x");
  lastUsed(folder.path + "/old.tmp", std::time(nullptr) - 7200);
  writeFile(folder.path + "/young.tmp", "x");
  CHECK(CacheFolder(folder.path).prune(kPlenty).value().files == 1);
  CHECK(folder.files(".tmp") == std::vector<std::string>{folder.path + "/young.tmp"});
}

TEST_CASE("a folder that is not there has no entries, and is not made by asking") {
  const Folder folder;
  const CacheFolder none(folder.path + "/none");
  CHECK(none.list().value().empty());
  CHECK(none.verify().value().empty());
  CHECK(none.clear().value().files == 0);
  CHECK(folder.files("").empty());
}
