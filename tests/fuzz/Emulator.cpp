// libFuzzer: no PTX text may crash the parser, and what it accepts runs to a report.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Emulator.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace yaglom;
  const Result<emulator::Module> module =
      emulator::Module::parse(std::string_view(reinterpret_cast<const char *>(data), size));
  if (!module) {
    if (*module.error().what() == '\0') {
      std::fputs("an error without a message\n", stderr);
      std::abort();
    }
    return 0;
  }
  std::vector<uint32_t> memory(256);
  for (const emulator::Entry &entry : module->entries()) {
    emulator::Launch launch;
    launch.kernel = entry.name;
    launch.grid = {2, 1, 1};
    launch.block = {48, 1, 1};
    launch.dynamicSharedBytes = 512;
    if (entry.requiredThreads[0])
      launch.block = entry.requiredThreads;
    for (const emulator::Parameter &parameter : entry.parameters)
      launch.arguments.push_back(parameter.bytes == 8 ? emulator::Argument(emulator::Pointer{"memory", 0})
                                                      : std::vector<std::byte>(parameter.bytes, std::byte{3}));
    emulator::Options options;
    options.threads = 1;
    options.instructionBudget = 500;
    (void)emulator::run(*module, launch, {{"memory", memory.data(), 4 * memory.size()}}, options);
  }
  return 0;
}
