// Runs PTX text on the CPU, exactly: results, mistakes and counters of a launch without a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Report.h"
#include "runtime/emulator/Types.h"
#include "yaglom/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace yaglom::emulator {

struct Program; // decoded code of one kernel

struct Parameter {
  std::string name;
  Type type = Type::B64;  ///< B8 for an array of bytes (a struct by value)
  uint64_t bytes = 8;     ///< size
  uint64_t alignment = 8; ///< as declared, or by the type
  uint64_t offset = 0;    ///< in the block of parameters
};

struct Entry {
  std::string name;
  std::vector<Parameter> parameters;
  std::array<uint32_t, 3> requiredThreads{}; ///< .reqntid, or zeros
  std::array<uint32_t, 3> maximalThreads{};  ///< .maxntid, or zeros
  uint64_t staticSharedBytes = 0;
  bool usesDynamicShared = false; ///< there is an `.extern .shared`
  std::size_t instructions = 0;
};

/// Parsed and decoded PTX; immutable, cheap to copy, and usable by several threads.
///
///     Module module = Module::parse(text).value();
///     Report report = run(module, {.grid = {8}, .block = {256}, .arguments = {"Q", 128u}}, {{"Q", data, bytes}}).value();
class Module {
public:
  /// Parses PTX of ISA 6.0 to 9.0. The Error says the line, the text there and what is wrong; an instruction that the emulator
  /// does not know is refused here, never at run time.
  static Result<Module> parse(std::string_view text);

  /// In the order of the text.
  const std::vector<Entry> &entries() const;
  /// The entry of that name, or null.
  const Entry *find(std::string_view name) const;
  /// The decoded code; internal.
  const Program &program(std::size_t entry) const;

private:
  struct Content;
  std::shared_ptr<const Content> content;
};

/// Memory of the caller that a kernel may reach. On the device it has an address of its own, a multiple of 256, far from
/// every other buffer's: an access one byte outside is seen.
struct Buffer {
  std::string name;
  void *data = nullptr;
  std::size_t bytes = 0;
  bool writable = true;
  /// False: reading a byte that the kernel has not written makes a value that nothing wrote, and so does one that it has
  /// written with such a value. Storing such a value to a buffer that is initialised is a finding.
  bool initialised = true;
};

/// The address of a byte of a buffer, as an argument.
struct Pointer {
  std::string buffer;
  int64_t offset = 0; ///< bytes
};

/// What a parameter gets: a pointer, a number of the parameter's type, or its bytes.
using Argument = std::variant<Pointer, int64_t, double, std::vector<std::byte>>;

struct Launch {
  std::string kernel; ///< may be empty when the module has one
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint64_t dynamicSharedBytes = 0;
  std::vector<Argument> arguments; ///< in the order of the parameters
};

struct Options {
  uint64_t seed = 0;  ///< of the order in which the warps of a block run between barriers; 0: by number
  int threads = 0;    ///< blocks at a time; 0: one a core. No result depends on it
  bool checks = true; ///< races, and which bytes a block touches; addresses and poison are always checked
  std::size_t maximalFindings = 100;       ///< distinct ones that are kept
  uint64_t instructionBudget = 1ull << 28; ///< warp instructions of a block before it is stopped with a finding
};

/// Runs a kernel to its end. Mistakes of the kernel are findings of the Report; the Error is for mistakes of the launch: it
/// names the argument, parameter or buffer. Writes the buffers' memory. Results, findings and counters depend on nothing
/// but the module, the launch, the buffers and `seed`.
Result<Report> run(const Module &module, const Launch &launch, const std::vector<Buffer> &buffers,
                   const Options &options = {});

/// An instruction that the decoder knows, with one of its types ("add", S32; "bar", None).
struct KnownInstruction {
  std::string_view opcode;
  Type type = Type::None;
  auto operator<=>(const KnownInstruction &) const = default;
};

/// All that the decoder knows.
std::vector<KnownInstruction> knownInstructions();
/// The ones that the kernels of `module` use.
std::vector<KnownInstruction> usedInstructions(const Module &module);

} // namespace yaglom::emulator
