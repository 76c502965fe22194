// Extracts the fenced blocks of the documentation and compiles them: ```cpp by the compiler, ```phi by the parser.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/Catch.h"
#include "yaglom/spec.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace yaglom;

namespace {

struct Block {
  std::string language;
  std::string text;
  std::string place; ///< file:line of the fence
};

const fs::path source = YAGLOM_SOURCE_DIR;

std::string read(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> documents() {
  std::vector<fs::path> result;
  for (const char *name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"})
    result.push_back(source / name);
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(source / "docs"))
    if (entry.path().extension() == ".md")
      result.push_back(entry.path());
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<Block> blocks(const std::string &language) {
  std::vector<Block> result;
  for (const fs::path &path : documents()) {
    std::istringstream lines(read(path));
    std::string line;
    Block *open = nullptr;
    bool inside = false;
    for (int number = 1; std::getline(lines, line); ++number) {
      const size_t start = line.find_first_not_of(' ');
      if (start != std::string::npos && line.compare(start, 3, "```") == 0) {
        inside = !inside;
        open = nullptr;
        if (inside && line.substr(start + 3) == language)
          open = &result.emplace_back(Block{language, "", path.string() + ":" + std::to_string(number)});
      } else if (open) {
        open->text += line + "\n";
      }
    }
    CHECK_FALSE(inside); // an unclosed fence
  }
  return result;
}

/// A block with includes is a unit; anything else is the inside of a function that knows the public headers.
std::string unit(const Block &block) {
  if (block.text.find("#include") != std::string::npos)
    return block.text;
  return "#include <yaglom/yaglom.h>\n#include <cstdio>\n#include <vector>\nusing namespace yaglom;\n"
         "[[maybe_unused]] static void block() {\n" +
         block.text + "}\n";
}

} // namespace

TEST_CASE("every cpp block of the documentation compiles") {
  const std::vector<Block> all = blocks("cpp");
  REQUIRE(all.size() >= 2);
  for (const Block &block : all) {
    INFO(block.place);
    const std::string file = YAGLOM_SCRATCH_DIR "/block.cpp";
    const std::string log = YAGLOM_SCRATCH_DIR "/block.log";
    std::ofstream(file) << unit(block);
    const std::string command = YAGLOM_CXX " -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I" YAGLOM_SOURCE_DIR
                                           "/include " +
                                file + " >" + log + " 2>&1";
    const int status = std::system(command.c_str());
    INFO(read(log));
    CHECK(status == 0);
  }
}

TEST_CASE("every phi block of the documentation parses and checks") {
  const std::vector<Block> all = blocks("phi");
  REQUIRE(all.size() >= 2);
  for (const Block &block : all) {
    const Result<Spec> spec = Spec::parse(block.text, block.place);
    INFO((spec ? std::string() : spec.error().what()));
    CHECK(spec);
  }
}

TEST_CASE("the README shows examples/01_first_kernel.cpp and a spec of examples/specs, word for word") {
  const std::string readme = read(source / "README.md");
  std::string program = read(source / "examples/01_first_kernel.cpp");
  program.erase(0, program.find("#include"));
  CHECK(readme.find("```cpp\n" + program + "```\n") != std::string::npos);
  CHECK(readme.find("```phi\n" + read(source / "examples/specs/flexformer_n.phi") + "```\n") != std::string::npos);
}

TEST_CASE("relative links of the documentation lead to files of the repository") {
  const std::regex link(R"(\]\(([^)#:\s]+)(#[^)]*)?\))");
  int count = 0;
  for (const fs::path &path : documents()) {
    const std::string text = read(path);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it, ++count) {
      INFO(path.string() << " links to " << (*it)[1].str());
      CHECK(fs::exists(path.parent_path() / (*it)[1].str()));
    }
  }
  CHECK(count > 5);
}
