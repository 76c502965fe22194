// PTX to machine code on this computer, without a GPU: by ptxas, or by libnvJitLink.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/AssemblyReport.h"
#include "yaglom/result.h"

#include <memory>

namespace yaglom::cuda {

/// How PTX is assembled.
struct AssemblyOptions {
  std::string architecture = {}; ///< "sm_90a"
  int optimization = 3;          ///< 0 to 3
  int maxRegisters = 0;          ///< a thread; 0: as the PTX says
};

/// Machine code, and what the assembler said of it.
struct Assembly {
  std::string cubin;
  AssemblyReport report;
};

/// One of NVIDIA's assemblers. May be used from several threads at a time.
class Assembler {
public:
  virtual ~Assembler() = default;

  /// Errors: the PTX is refused, with the assembler's words, in which the PTX is called kernel.ptx.
  virtual Result<Assembly> assemble(std::string_view ptx, const AssemblyOptions &options) const = 0;

  /// "ptxas 13.0.88": part of the key under which its cubins are kept.
  virtual Result<std::string> version() const = 0;

  /// The file or library that it is.
  virtual const std::string &path() const = 0;
};

/// Where assemblers are looked for, in this order.
struct AssemblerSearch {
  std::vector<std::string> programs = {};  ///< files that may be ptxas
  std::vector<std::string> libraries = {}; ///< files or names of libnvJitLink for the dynamic linker

  /// ptxas in the folders of PATH, in CUDA_HOME/bin and CUDA_PATH/bin, and in /usr/local/cuda/bin; then libnvJitLink.so
  /// of CUDA 13 and 12 where the dynamic linker looks, and in lib64 of the same folders.
  static AssemblerSearch fromEnvironment();
};

/// The first assembler that is found. Errors: there is none.
Result<std::unique_ptr<Assembler>> findAssembler(const AssemblerSearch &search = AssemblerSearch::fromEnvironment());

/// The one that the environment variable YAGLOM_ASSEMBLER names, a ptxas, else the first that is found. Errors: there is none;
/// the variable is "driver", which leaves assembling to NVIDIA's driver.
Result<std::unique_ptr<Assembler>> assemblerFromEnvironment();

/// The program `path`, run anew for each text, with temporary files that are removed.
Result<std::unique_ptr<Assembler>> openPtxas(const std::string &path);

/// The library `path`, loaded until the process ends.
Result<std::unique_ptr<Assembler>> openNvJitLink(const std::string &path);

} // namespace yaglom::cuda
