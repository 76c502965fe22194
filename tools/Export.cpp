// yaglom export: an attention as object files or PTX, for applications without yaglom.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/export.h"
#include "tools/Options.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

namespace yaglom::tools {
namespace {

namespace fs = std::filesystem;

struct Options : AttentionOptions {
  ExportOptions how;
  std::string folder;
  bool force = false;
};

bool isOurs(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return isExported(std::string(std::istreambuf_iterator<char>(file), {}));
}

/// Before anything is written.
void checkPlace(const std::vector<ExportedFile> &files, const Options &options) {
  for (const ExportedFile &file : files) {
    const fs::path path = fs::path(options.folder) / file.name;
    if (fs::exists(path) && !options.force && !isOurs(path))
      throw Error(fmt::format("{}: exists, and no export wrote it; --force replaces it", path.string()));
  }
}

void write(const fs::path &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw Error(fmt::format("{}: cannot be written", path.string()));
}

int run(const Options &options) {
  const Spec spec = loadSpec(options.file);
  const std::vector<ExportedFile> files =
      exportAttention(spec, options.attention, options.compile, options.how).value();
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error)
    throw Error(fmt::format("{}: {}", options.folder, error.message()));
  checkPlace(files, options);
  for (const ExportedFile &file : files) {
    const fs::path path = fs::path(options.folder) / file.name;
    write(path, file.bytes);
    fmt::print("{}\n", path.string());
  }
  return kSuccess;
}

Target parseTarget(const std::string &name) {
  Result<Target> target = Target::parse(name);
  if (!target)
    throw CLI::ValidationError("--target", target.error().what());
  return *target;
}

} // namespace

void addExport(CLI::App &app, Action &action) {
  CLI::App *command =
      app.add_subcommand("export", "Writes object files or PTX with an interface in C, to be linked without yaglom");
  auto options = std::make_shared<Options>();
  addAttention(*command, *options);
  addWidths(*command, options->compile);
  addDType(*command, options->compile);
  command
      ->add_option_function<std::vector<std::string>>(
          "--target",
          [options](const std::vector<std::string> &names) {
            options->how.targets.clear();
            for (const std::string &name : names)
              options->how.targets.push_back(parseTarget(name));
          },
          "host, x86-64-v3 and x86-64-v4: the application takes the best it can run; or a GPU architecture: sm_80 "
          "(host)")
      ->delimiter(',')
      ->type_name("NAME,...");
  addBackward(*command, options->how.backward, "The gradient too");
  command->add_option("-o,--output", options->folder, "The folder, which is made")->required()->type_name("DIR");
  command->add_option("--name", options->how.name, "Prefix of functions and files (the attention's name)")
      ->type_name("NAME");
  command->add_option("--heads", options->how.heads, "Heads of the initial parameters (8)")
      ->check(CLI::PositiveNumber)
      ->type_name("H");
  command->add_option("--seed", options->how.seed, "Of the initial parameters and draws (0)")->type_name("S");
  command->add_flag("--force", options->force, "Replaces files that no export wrote");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

} // namespace yaglom::tools
