// load(): the code of a program into this process.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"
#include "compiler/targets/cpu/Jit.h"

#include "llvm/Support/MemoryBuffer.h"

namespace yaglom::compiler {
namespace {

std::vector<Entry *> entriesOf(Program &program) {
  std::vector<Entry *> entries{&program.forward, &program.advance};
  for (Entry &draw : program.draws)
    entries.push_back(&draw);
  return entries;
}

std::vector<Entry *> entriesOf(BackwardProgram &program) {
  std::vector<Entry *> entries{&program.backward};
  for (Entry &draw : program.draws)
    entries.push_back(&draw);
  return entries;
}

std::vector<Entry *> entriesOf(LossProgram &program) { return {&program.backward}; }

Result<void> loadHost(Code &code, const std::vector<Entry *> &entries) {
  auto loaded = cpu::LoadedCode::load(llvm::MemoryBuffer::getMemBufferCopy(code.bytes));
  if (!loaded)
    return loaded.error();
  for (Entry *entry : entries) {
    if (!entry->exists())
      continue;
    const auto address = (*loaded)->find(entry->symbol);
    if (!address)
      return address.error();
    entry->function = reinterpret_cast<Entry::Function>(*address);
  }
  code.bytes.clear();
  code.loaded = *loaded;
  return {};
}

/// A device loads the module when it first launches one of its kernels.
void loadGpu(Code &code, const std::vector<Entry *> &entries) {
  const auto module = std::make_shared<const GpuModule>(std::move(code.bytes), code.architecture);
  for (Entry *entry : entries)
    if (entry->exists())
      entry->gpu.module = module;
}

template <typename P>
Result<std::shared_ptr<const P>> loadProgram(P program) {
  auto loaded = std::make_shared<P>(std::move(program));
  if (!loaded->code.architecture.empty())
    loadGpu(loaded->code, entriesOf(*loaded));
  else if (Result<void> done = loadHost(loaded->code, entriesOf(*loaded)); !done)
    return done.error();
  return std::shared_ptr<const P>(std::move(loaded));
}

} // namespace

Result<std::shared_ptr<const Program>> load(Program program) { return loadProgram(std::move(program)); }
Result<std::shared_ptr<const BackwardProgram>> load(BackwardProgram program) { return loadProgram(std::move(program)); }
Result<std::shared_ptr<const LossProgram>> load(LossProgram program) { return loadProgram(std::move(program)); }

} // namespace yaglom::compiler
