// Starting the tool: fork, redirect, exec, wait.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/Folder.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace yaglom::cli {
namespace {

constexpr const char *kFolder = YAGLOM_SOURCE_DIR "/tests/cli";

void redirect(const std::string &path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0)
    _exit(126);
}

} // namespace

static pid_t start(const std::string &program, const std::vector<std::string> &arguments, const std::string &out,
                   const std::string &err) {
  std::vector<char *> words{const_cast<char *>(program.c_str())};
  for (const std::string &argument : arguments)
    words.push_back(const_cast<char *>(argument.c_str()));
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    if (chdir(kFolder) == 0)
      execvp(program.c_str(), words.data());
    _exit(127);
  }
  return child;
}

Outcome tool(const std::vector<std::string> &arguments) { return command(YAGLOM_TOOL, arguments); }

Outcome command(const std::string &program, const std::vector<std::string> &arguments) {
  const std::string out = temporary("stdout"), err = temporary("stderr");
  const pid_t child = start(program, arguments, out, err);
  const int code = exitCode(child);
  return {code, readFile(out), readFile(err), child};
}

pid_t startTool(const std::vector<std::string> &arguments) {
  return start(YAGLOM_TOOL, arguments, "/dev/null", "/dev/null");
}

int exitCode(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool isInstalled(const std::string &program) {
  const char *const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0)
      return true;
  return false;
}

Variable::Variable(const char *name, const std::string &value) : name(name) {
  if (const char *const before = std::getenv(name))
    old = before;
  setenv(name, value.c_str(), 1);
}

Variable::~Variable() {
  if (old)
    setenv(name, old->c_str(), 1);
  else
    unsetenv(name);
}

std::string temporary(const std::string &name) {
  static const tests::Folder folder;
  return folder.path + "/" + name;
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void writeFile(const std::string &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

bool isExpected(const std::string &text, const std::string &name) {
  const std::string path = std::string(kFolder) + "/expected/" + name;
  if (std::getenv("YAGLOM_UPDATE"))
    writeFile(path, text);
  const bool same = readFile(path) == text;
  if (!same)
    std::fprintf(stderr, "%s differs from:\n%s", path.c_str(), text.c_str());
  return same;
}

} // namespace yaglom::cli
