// A progress bar on standard error while that is a terminal; otherwise nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include <unistd.h>

namespace learning {

class Progress {
public:
  /// `label` stands before the bar.
  explicit Progress(std::string label) : label(std::move(label)), terminal(isatty(STDERR_FILENO)) {}
  ~Progress() { clear(); }

  /// Draws the bar anew, with `text` behind it.
  void show(int64_t done, int64_t all, const std::string &text) const {
    const int kCells = 30;
    const std::string bar(size_t(kCells * done / all), '#');
    if (terminal)
      std::fprintf(stderr, "\r\033[K%s [%-*s] %ld/%ld  %s", label.c_str(), kCells, bar.c_str(), long(done), long(all),
                   text.c_str());
  }

  /// Makes room for a line of output.
  void clear() const {
    if (terminal)
      std::fprintf(stderr, "\r\033[K");
  }

private:
  std::string label;
  bool terminal;
};

} // namespace learning
