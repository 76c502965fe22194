// Finds an assembler, and runs ptxas.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Assembler.h"

#include "runtime/cuda/Subprocess.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace yaglom::cuda {

namespace {

bool isProgram(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

class Ptxas : public Assembler {
public:
  explicit Ptxas(std::string path) : program(std::move(path)) {}

  const std::string &path() const override { return program; }

  Result<std::string> version() const override {
    const Result<ProgramResult> run = runProgram(program, {"--version"});
    if (!run)
      return run.error();
    const size_t at = run->output.find(", V");
    if (run->exitCode != 0 || at == std::string::npos)
      return Error(fmt::format("{} --version: expected NVIDIA's ptxas, found: {}", program, run->output));
    const size_t start = at + 3;
    return "ptxas " + run->output.substr(start, run->output.find_first_of(" \r\n", start) - start);
  }

  Result<Assembly> assemble(std::string_view ptx, const AssemblyOptions &options) const override {
    const Result<TemporaryFile> input = TemporaryFile::create(".ptx", ptx);
    if (!input)
      return input.error();
    const Result<TemporaryFile> output = TemporaryFile::create(".cubin");
    if (!output)
      return output.error();
    std::vector<std::string> arguments = {"-v", "-arch=" + options.architecture,
                                          fmt::format("-O{}", options.optimization)};
    if (options.maxRegisters > 0)
      arguments.push_back(fmt::format("-maxrregcount={}", options.maxRegisters));
    arguments.insert(arguments.end(), {input->path(), "-o", output->path()});

    const Result<ProgramResult> run = runProgram(program, arguments);
    if (!run)
      return run.error();
    std::string log = replaced(run->output, input->path(), "kernel.ptx");
    Result<std::string> cubin = output->read();
    if (run->exitCode != 0 || !cubin || cubin->empty())
      return Error(fmt::format("{} cannot assemble for {} (exit code {}):\n{}", program, options.architecture,
                               run->exitCode, log));
    return Assembly{std::move(*cubin), parseAssemblyLog(std::move(log))};
  }

private:
  std::string program;
};

/// The parts of a list such as PATH. An empty one, which means the current folder, is left out.
std::vector<std::string> folders(const char *variable) {
  std::vector<std::string> all;
  const char *value = std::getenv(variable);
  for (std::string_view rest = value ? value : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0)
      all.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return all;
}

} // namespace

AssemblerSearch AssemblerSearch::fromEnvironment() {
  constexpr const char *kLibraries[] = {"libnvJitLink.so.13", "libnvJitLink.so.12"};
  std::vector<std::string> toolkits;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *folder = std::getenv(variable); folder && *folder)
      toolkits.emplace_back(folder);
  toolkits.emplace_back("/usr/local/cuda");

  AssemblerSearch search;
  for (const std::string &folder : folders("PATH"))
    search.programs.push_back(folder + "/ptxas");
  for (const std::string &folder : toolkits)
    search.programs.push_back(folder + "/bin/ptxas");
  search.libraries.assign(std::begin(kLibraries), std::end(kLibraries));
  for (const std::string &folder : toolkits)
    for (const char *library : kLibraries)
      search.libraries.push_back(fmt::format("{}/lib64/{}", folder, library));
  return search;
}

Result<std::unique_ptr<Assembler>> openPtxas(const std::string &path) {
  if (!isProgram(path))
    return Error(fmt::format("{} is not a program", path));
  return std::unique_ptr<Assembler>(std::make_unique<Ptxas>(path));
}

Result<std::unique_ptr<Assembler>> findAssembler(const AssemblerSearch &search) {
  for (const std::string &path : search.programs)
    if (isProgram(path))
      return openPtxas(path);
  for (const std::string &path : search.libraries)
    if (auto library = openNvJitLink(path))
      return library;
  return Error("no assembler for PTX: neither ptxas (in PATH, CUDA_HOME/bin or /usr/local/cuda/bin) nor "
               "libnvJitLink.so.13 or .12 "
               "was found; install the CUDA toolkit, or leave assembling to the driver");
}

Result<std::unique_ptr<Assembler>> assemblerFromEnvironment() {
  const char *value = std::getenv("YAGLOM_ASSEMBLER");
  const std::string wish = value ? value : "";
  if (wish.empty())
    return findAssembler();
  if (wish == "driver")
    return Error("no assembler for PTX: YAGLOM_ASSEMBLER is 'driver'");
  auto opened = openPtxas(wish);
  return opened ? std::move(opened)
                : Error(fmt::format("no assembler for PTX: YAGLOM_ASSEMBLER: {}", opened.error().what()));
}

} // namespace yaglom::cuda
