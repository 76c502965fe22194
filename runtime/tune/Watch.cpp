// fork(), a pipe, and a deadline.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Watch.h"

#include "runtime/cache/Store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace yaglom::runtime::tune {
namespace {

using cache::FileDescriptor;

/// What the child says: one of these, the length of the text (8 bytes), the text.
constexpr char kValue = '+', kError = '-';
constexpr std::size_t kHeaderBytes = 1 + sizeof(uint64_t);
/// How often `cancel` is looked at.
constexpr int kPollMilliseconds = 20;

/// Never returns. Nothing of the parent is cleaned up here: its buffers and files are the parent's.
[[noreturn]] void beChild(const std::function<std::string()> &work, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    ::signal(signal, SIG_DFL); // the user's handlers are not meant for this
  if (const int nowhere = ::open("/dev/null", O_RDWR); nowhere >= 0)
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      dup2(nowhere, stream);
  std::string header(1, kValue), text;
  try {
    text = work();
  } catch (const std::exception &error) {
    header[0] = kError;
    text = error.what();
  }
  const uint64_t length = text.size();
  header.append(reinterpret_cast<const char *>(&length), sizeof length);
  if (cache::writeAll(pipe, header))
    cache::writeAll(pipe, text);
  _exit(0);
}

/// Waits for it.
std::string describeEnd(pid_t child) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended == child && WIFSIGNALED(status))
    return fmt::format("its process ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return "its process ended without a word";
}

/// Whether the child has said all. Another process may hold the pipe open for longer.
bool isWhole(std::string_view said) {
  uint64_t length = 0;
  if (said.size() < kHeaderBytes)
    return false;
  std::memcpy(&length, said.data() + 1, sizeof length);
  return said.size() - kHeaderBytes >= length;
}

/// Reads until all is said, the child has ended, the deadline, or cancellation.
std::optional<Watched::End> collect(int pipe, std::string &said, Clock::time_point deadline,
                                    const std::atomic<bool> *cancel) {
  for (char buffer[1 << 16]; !isWhole(said);) {
    if (cancel && cancel->load())
      return Watched::End::Cancelled;
    if (Clock::now() >= deadline)
      return Watched::End::Late;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
    pollfd poll{pipe, POLLIN, 0};
    if (::poll(&poll, 1, static_cast<int>(std::min<int64_t>(left, kPollMilliseconds))) <= 0)
      continue;
    const ssize_t count = ::read(pipe, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return std::nullopt;
    said.append(buffer, static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

} // namespace

Watched runWatched(const std::function<std::string()> &work, Clock::time_point deadline,
                   const std::atomic<bool> *cancel) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return {Watched::End::Failed, fmt::format("pipe2: {}", std::strerror(errno))};
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  const pid_t child = fork();
  if (child < 0)
    return {Watched::End::Failed, fmt::format("fork: {}", std::strerror(errno))};
  if (child == 0)
    beChild(work, writing.get());
  writing = FileDescriptor();
  std::string said;
  const std::optional<Watched::End> stopped = collect(reading.get(), said, deadline, cancel);
  if (stopped)
    kill(child, SIGKILL);
  const std::string end = describeEnd(child);
  if (stopped)
    return {*stopped, ""};
  if (!isWhole(said))
    return {Watched::End::Failed, end};
  return {said.front() == kValue ? Watched::End::Done : Watched::End::Failed, said.substr(kHeaderBytes)};
}

} // namespace yaglom::runtime::tune
