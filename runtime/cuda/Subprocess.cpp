// posix_spawn, waitpid and mkostemps, with their errors as values.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Subprocess.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace yaglom::cuda {

namespace {

Error systemError(const char *call, const std::string &subject, int number) {
  return Error(fmt::format("{}: {}: {}", subject, call, std::strerror(number)));
}

/// Writes all of `content`; 0 or the error's number.
int writeAll(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(file, content.data(), content.size());
    if (written < 0 && errno != EINTR)
      return errno;
    content.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
  return 0;
}

/// What a new process does with its files and signals before it runs.
class SpawnSettings {
public:
  explicit SpawnSettings(const std::string &outputPath) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, outputPath.c_str(), O_WRONLY | O_APPEND, 0);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    // The caller's thread may block or ignore signals; the program must end like any other.
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t reset;
    sigemptyset(&none);
    sigemptyset(&reset);
    sigaddset(&reset, SIGPIPE);
    sigaddset(&reset, SIGCHLD);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &reset);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings &) = delete;
  SpawnSettings &operator=(const SpawnSettings &) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

} // namespace

Result<TemporaryFile> TemporaryFile::create(const std::string &suffix, std::string_view content) {
  std::error_code noFolder;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(noFolder);
  if (noFolder)
    return Error(fmt::format("there is no folder for temporary files: {}; see TMPDIR", noFolder.message()));
  std::string path = (folder / "yaglom-XXXXXX").string() + suffix;
  const int file = mkostemps(path.data(), static_cast<int>(suffix.size()), O_CLOEXEC);
  if (file < 0)
    return systemError("mkostemps", path, errno);
  TemporaryFile temporary(path);
  const int failure = writeAll(file, content);
  if (close(file) != 0 || failure)
    return systemError("write", path, failure ? failure : errno);
  return temporary;
}

TemporaryFile::~TemporaryFile() {
  if (!name.empty())
    unlink(name.c_str());
}

Result<std::string> TemporaryFile::read() const {
  const int file = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return systemError("open", name, errno);
  std::string content;
  char buffer[1 << 14];
  int failure = 0;
  for (;;) {
    const ssize_t count = ::read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      failure = errno;
    if (count <= 0)
      break;
    content.append(buffer, static_cast<size_t>(count));
  }
  close(file);
  if (failure)
    return systemError("read", name, failure);
  return content;
}

Result<ProgramResult> runProgram(const std::string &path, const std::vector<std::string> &arguments) {
  const Result<TemporaryFile> output = TemporaryFile::create(".log");
  if (!output)
    return output.error();
  std::vector<char *> words = {const_cast<char *>(path.c_str())};
  for (const std::string &argument : arguments)
    words.push_back(const_cast<char *>(argument.c_str()));
  words.push_back(nullptr);

  const SpawnSettings settings(output->path());
  pid_t child = 0;
  if (const int failure =
          posix_spawn(&child, path.c_str(), &settings.files, &settings.attributes, words.data(), environ))
    return systemError("posix_spawn", path, failure);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == EINTR)
      continue;
    // Where the host program ignores SIGCHLD there is no status; whoever asked sees by the output whether it worked.
    if (errno == ECHILD)
      break;
    return systemError("waitpid", path, errno);
  }

  Result<std::string> text = output->read();
  if (!text)
    return text.error();
  return ProgramResult{WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), std::move(*text)};
}

} // namespace yaglom::cuda
