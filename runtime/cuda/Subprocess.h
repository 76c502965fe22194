// Runs another program to its end, and keeps what it says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <string>
#include <vector>

namespace yaglom::cuda {

/// A file that did not exist before, which only this user can read, in TMPDIR or /tmp. Removed when this is destroyed.
class TemporaryFile {
public:
  /// Creates the file with `content`; its name ends in `suffix`.
  static Result<TemporaryFile> create(const std::string &suffix, std::string_view content = {});

  TemporaryFile(TemporaryFile &&other) noexcept : name(std::exchange(other.name, {})) {}
  TemporaryFile &operator=(TemporaryFile &&) = delete;
  ~TemporaryFile();

  const std::string &path() const { return name; }

  /// What the file holds now.
  Result<std::string> read() const;

private:
  explicit TemporaryFile(std::string name) : name(std::move(name)) {}
  std::string name;
};

/// How a program ended. A signal counts as 128 and its number, as in a shell.
struct ProgramResult {
  int exitCode = 0;
  std::string output; ///< standard output and error, in the order in which they were written
};

/// Runs the file `path` with `arguments`, which do not include its name, in this process's environment, with nothing on
/// standard input; returns when it has ended. No shell is involved. Errors: it cannot be started.
Result<ProgramResult> runProgram(const std::string &path, const std::vector<std::string> &arguments);

} // namespace yaglom::cuda
