// Decoded code of a kernel: dense operations over register slots; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Emulator.h"
#include "runtime/emulator/Syntax.h"

#include <cstdint>
#include <string>
#include <vector>

namespace yaglom::emulator {

class Warp;
struct Op;

inline constexpr unsigned kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

/// Executes `op` on the lanes of `mask`.
using Handler = void (*)(Warp &warp, const Op &op, uint32_t mask);

/// What the interpreter's loop itself does with an operation.
enum class Control : uint8_t { None, Collective, Branch, BranchIndex, Exit, Barrier, Trap };

/// One instruction. Slots are places in a warp's register file: a slot of 32 words holds one 32-bit value a lane, two slots
/// hold a 64-bit value; a predicate's slot is an index of a mask. Destinations come first, then sources.
struct Op {
  Handler run = nullptr;
  Control control = Control::None;
  bool guardNot = false;
  bool aligned = false; ///< a collective or barrier that all lanes of the warp execute together
  uint8_t count = 1;    ///< elements of a vector, matrices of ldmatrix
  uint8_t bytes = 0;    ///< of a memory element
  uint8_t mode = 0;     ///< of the handler: comparison, shuffle kind, ...
  uint8_t flags = 0;    ///< of the handler
  syntax::Space space = syntax::Space::Generic;
  int32_t guard = -1;     ///< predicate
  uint32_t index = 0;     ///< of this operation
  uint32_t target = 0;    ///< of a branch; the first entry in Program::targets of brx.idx
  int64_t immediate = 0;  ///< displacement of an address
  int64_t immediate2 = 0; ///< of a second address
  uint32_t slots[20] = {};
};

/// What findings and counters say of an operation.
struct OpInfo {
  uint32_t line = 0;
  uint32_t form = 0; ///< in Program::forms
  std::string text;
};

/// Values that a warp's registers hold at its start.
enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  Laneid,
  Warpid,
  Nwarpid,
  Smid,
  Nsmid,
  Gridid,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
  DynamicSmemSize,
  TotalSmemSize,
  Zero,
  One,
};

struct Constant {
  uint32_t slot = 0;
  bool wide = false;
  uint64_t value = 0;
};

struct SpecialRegister {
  uint32_t slot = 0;
  bool wide = false;
  Special special = Special::Zero;
};

struct PredicateConstant {
  uint32_t index = 0;
  bool value = false;
};

struct Program {
  std::vector<Op> ops; ///< ended by an exit
  std::vector<OpInfo> info;
  std::vector<std::string> forms;
  std::vector<uint32_t> targets; ///< of all brx.idx
  uint32_t slots = 0;
  uint32_t predicates = 0;
  std::vector<Constant> constants;
  std::vector<PredicateConstant> predicateConstants;
  std::vector<SpecialRegister> specials;
  std::vector<syntax::Variable> globals; ///< .global and .const of the module; an address is their index's base
  std::vector<KnownInstruction> used;
  uint64_t parameterBytes = 0;
  uint64_t staticSharedBytes = 0; ///< also the start of the dynamic part, before its alignment
  uint64_t dynamicSharedOffset = 0;
  uint64_t localBytes = 0;      ///< a thread
  bool partialBarriers = false; ///< there is one that not all threads of a block take part in
  bool ordersBlocks = false;    ///< blocks may talk to each other: atomics on global memory
};

/// Addresses. Buffers lie `kGap` apart, so that no slip of a kernel reaches a neighbour; shared, local and parameter space have
/// a window each for generic addresses.
inline constexpr uint64_t kGlobalBase = uint64_t{0x10} << 40;
inline constexpr uint64_t kGap = uint64_t{1} << 36;
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 40;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << 40;
inline constexpr uint64_t kParamWindow = uint64_t{3} << 40;
/// The module's variables come first, one a gap; a launch's buffers follow.
constexpr uint64_t baseOfGlobal(std::size_t index) { return kGlobalBase + index * kGap; }

/// Decodes a parsed kernel. The Error says the line, the instruction and what is wrong.
Result<Program> decode(const syntax::File &file, const syntax::Kernel &kernel);

} // namespace yaglom::emulator
