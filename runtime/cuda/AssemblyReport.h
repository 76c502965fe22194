// What NVIDIA's assembler reports of the code it makes: registers, spills, memory, warnings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace yaglom::cuda {

/// One entry function. Bytes a thread for stack and spills, a block for shared memory.
struct FunctionReport {
  std::string name = {};
  int registers = 0;
  int stackBytes = 0;
  int spillStoreBytes = 0;
  int spillLoadBytes = 0;
  int sharedBytes = 0;   ///< static
  int constantBytes = 0; ///< all banks; parameters are counted by some versions only
  int barriers = 0;
};

struct AssemblyReport {
  std::vector<FunctionReport> functions; ///< in the order of the log
  /// Warnings, and remarks with a number such as "(C7510) Potential Performance Loss: wgmma.mma_async instructions are
  /// serialized ...", without the assembler's name before them. Each once.
  std::vector<std::string> warnings;
  std::string log; ///< all that it said

  /// The report on the entry `name`, or null.
  const FunctionReport *find(std::string_view name) const;
};

/// Reads what `ptxas -v`, libnvJitLink or the driver's assembler says. What it does not know it leaves out.
AssemblyReport parseAssemblyLog(std::string log);

} // namespace yaglom::cuda
