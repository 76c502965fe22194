// Runs the command line tool as a user does, and holds what it printed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace yaglom::cli {

struct Outcome {
  int code = -1; ///< exit code; -1 when it was killed
  std::string out;
  std::string err;
  int pid = 0;
};

/// `yaglom ARGUMENTS...` in the folder of these tests.
Outcome tool(const std::vector<std::string> &arguments);

/// The same beside this process; what it prints is dropped.
pid_t startTool(const std::vector<std::string> &arguments);
/// Waits for it. -1 when it was killed.
int exitCode(pid_t child);
/// `program`, found by PATH or by its path, in the same way.
Outcome command(const std::string &program, const std::vector<std::string> &arguments);

/// Whether PATH has a program of this name.
bool isInstalled(const std::string &program);

/// An environment variable with another value, while this lives.
class Variable {
public:
  Variable(const char *name, const std::string &value);
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;
  ~Variable();

private:
  const char *name;
  std::optional<std::string> old;
};

/// A path in a folder of its own for this process, which is removed at the end.
std::string temporary(const std::string &name);

std::string readFile(const std::string &path);
void writeFile(const std::string &path, const std::string &bytes);

/// `text` equals the file expected/NAME. With YAGLOM_UPDATE set in the environment the file is written instead.
bool isExpected(const std::string &text, const std::string &name);

} // namespace yaglom::cli
