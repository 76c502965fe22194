// Modules: parsed and decoded once.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Program.h"

#include <algorithm>

namespace yaglom::emulator {

struct Module::Content {
  std::vector<Entry> entries;
  std::vector<Program> programs;
};

namespace {

Entry makeEntry(const syntax::Kernel &kernel, const Program &program, const syntax::File &file) {
  Entry entry;
  entry.name = kernel.name;
  entry.requiredThreads = kernel.requiredThreads;
  entry.maximalThreads = kernel.maximalThreads;
  entry.staticSharedBytes = program.staticSharedBytes;
  entry.instructions = kernel.instructions.size();
  const auto isDynamic = [](const syntax::Variable &variable) { return variable.external; };
  entry.usesDynamicShared = std::any_of(file.variables.begin(), file.variables.end(), isDynamic);
  uint64_t end = 0;
  for (const syntax::Variable &variable : kernel.parameters) {
    const uint64_t alignment = std::max<uint64_t>(variable.alignment, 1);
    const uint64_t offset = (end + alignment - 1) / alignment * alignment;
    entry.parameters.push_back({variable.name, variable.type, variable.bytes, alignment, offset});
    end = offset + variable.bytes;
  }
  return entry;
}

} // namespace

Result<Module> Module::parse(std::string_view text) {
  Result<syntax::File> file = syntax::parse(text);
  if (!file)
    return file.error();
  auto content = std::make_shared<Content>();
  for (const syntax::Kernel &kernel : file->kernels) {
    Result<Program> program = decode(*file, kernel);
    if (!program)
      return program.error();
    content->entries.push_back(makeEntry(kernel, *program, *file));
    content->programs.push_back(std::move(*program));
  }
  Module module;
  module.content = std::move(content);
  return module;
}

const std::vector<Entry> &Module::entries() const {
  static const std::vector<Entry> kNone;
  return content ? content->entries : kNone;
}

const Entry *Module::find(std::string_view name) const {
  for (const Entry &entry : entries())
    if (entry.name == name)
      return &entry;
  return nullptr;
}

const Program &Module::program(std::size_t entry) const { return content->programs[entry]; }

std::vector<KnownInstruction> usedInstructions(const Module &module) {
  std::vector<KnownInstruction> made;
  for (std::size_t i = 0; i < module.entries().size(); ++i)
    made.insert(made.end(), module.program(i).used.begin(), module.program(i).used.end());
  std::sort(made.begin(), made.end());
  made.erase(std::unique(made.begin(), made.end()), made.end());
  return made;
}

} // namespace yaglom::emulator
