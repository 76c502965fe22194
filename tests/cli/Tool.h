// Runs the command line tool as a user does, and holds what it printed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace yaglom::cli {

struct Outcome {
  int code = -1; ///< exit code; -1 when it was killed
  std::string out;
  std::string err;
};

/// `yaglom ARGUMENTS...` in the folder of these tests.
Outcome tool(const std::vector<std::string> &arguments);

/// The same beside this process; what it prints is dropped.
pid_t startTool(const std::vector<std::string> &arguments);
/// Waits for it. -1 when it was killed.
int exitCode(pid_t child);

/// A path in a folder of its own for this process, which is removed at the end.
std::string temporary(const std::string &name);

std::string readFile(const std::string &path);
void writeFile(const std::string &path, const std::string &bytes);

/// `text` equals the file expected/NAME. With YAGLOM_UPDATE set in the environment the file is written instead.
bool isExpected(const std::string &text, const std::string &name);

} // namespace yaglom::cli
