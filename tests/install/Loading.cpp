// Loads the library of its argument and compares the process before and after: threads, children, signal handlers.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <sys/wait.h>

namespace {

std::array<void (*)(int), NSIG> handlers() {
  std::array<void (*)(int), NSIG> all{};
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) == 0)
      all[static_cast<std::size_t>(number)] = action.sa_handler;
  }
  return all;
}

long threads() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

} // namespace

int main(int argc, char **argv) {
  const auto before = handlers();
  if (argc != 2 || !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) {
    std::fprintf(stderr, "cannot load: %s\n", dlerror());
    return 1;
  }
  if (threads() != 1)
    std::fprintf(stderr, "%ld threads\n", threads());
  if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD)
    std::fprintf(stderr, "a child process\n");
  if (handlers() != before)
    std::fprintf(stderr, "another signal handler\n");
  return 0;
}
