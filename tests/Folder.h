// A folder for one test, removed at its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace yaglom::tests {

class Folder {
public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "yaglom-test-XXXXXX";
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("cannot make a temporary folder");
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;

  /// Files whose names end so, in order.
  std::vector<std::string> files(const std::string &suffix) const {
    std::vector<std::string> found;
    for (const auto &file : std::filesystem::directory_iterator(path))
      if (file.path().string().ends_with(suffix))
        found.push_back(file.path());
    std::sort(found.begin(), found.end());
    return found;
  }

  std::string path;
};

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

inline void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

} // namespace yaglom::tests
