// Processes that share a cache folder: they race, wait, die and fork.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/Store.h"
#include "tests/Folder.h"
#include "tests/unit/Catch.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace yaglom;
using namespace yaglom::tests;
using runtime::cache::Key;
using runtime::cache::Lock;
using runtime::cache::Store;

namespace {

const Key kKey("test", "a", "text");

/// A process that does `work` and then exits; `work` starts no threads.
pid_t start(const std::function<void()> &work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  return child;
}

bool succeeds(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

double secondsOf(const std::function<void()> &work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A child that takes the lock and then does nothing; returns when it has it.
pid_t holder(const Store &store) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = start([&] {
    const Lock lock = store.lock(kKey, 1);
    if (write(ready[1], lock ? "y" : "n", 1) != 1)
      _exit(1);
    for (;;)
      pause();
  });
  char answer = 0;
  REQUIRE(read(ready[0], &answer, 1) == 1);
  CHECK(answer == 'y');
  close(ready[0]);
  close(ready[1]);
  return child;
}

} // namespace

TEST_CASE("sixteen processes that ask at once make one entry, once") {
  const Folder folder;
  int made[2];
  REQUIRE(pipe(made) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i)
    children.push_back(start([&] {
      const Store store = Store::open(folder.path).value();
      const Lock lock = store.lock(kKey, 20);
      if (!store.find(kKey).value()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (write(made[1], "x", 1) != 1 || !store.put(kKey, "payload", 1 << 20))
          _exit(1);
      }
      if (store.find(kKey).value() != "payload")
        _exit(2);
    }));
  for (const pid_t child : children)
    CHECK(succeeds(child));
  close(made[1]);
  char times[17];
  CHECK(read(made[0], times, sizeof times) == 1);
  close(made[0]);
  CHECK(folder.files(".entry").size() == 1);
  CHECK(folder.files(".tmp").empty());
}

TEST_CASE("a lock that another holds is waited for, but not for ever") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  const pid_t child = holder(store);
  bool gotIt = true;
  CHECK(secondsOf([&] { gotIt = bool(store.lock(kKey, 0.2)); }) < 5);
  CHECK_FALSE(gotIt);
  CHECK(store.lock(Key("test", "b", "of another lock file, as its digest begins differently"), 0));
  kill(child, SIGKILL);
  CHECK(store.lock(kKey, 5)); // the dead hold nothing
  waitpid(child, nullptr, 0);
}

TEST_CASE("a stopped process blocks nobody for ever") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  const pid_t child = holder(store);
  kill(child, SIGSTOP);
  CHECK_FALSE(store.lock(kKey, 0.1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("threads of one process exclude each other, too") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  const Lock lock = store.lock(kKey, 0);
  CHECK(lock);
  std::thread([&] { CHECK_FALSE(store.lock(kKey, 0)); }).join();
}

TEST_CASE("a process killed while it writes leaves no entry that is read") {
  const Folder folder;
  const Store store = Store::open(folder.path).value();
  const std::string payload(1 << 20, 'x');
  for (int i = 0; i < 10; ++i) {
    const pid_t child = start([&] {
      for (;;)
        (void)store.put(kKey, payload, int64_t{1} << 30);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + i));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto found = store.find(kKey).value();
    CHECK((!found || *found == payload));
    CHECK(store.verify().empty());
  }
}
