// A PTX module as parsed: variables, kernels and instructions whose names are resolved, not yet decoded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Types.h"
#include "yaglom/result.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom::emulator::syntax {

enum class Space : uint8_t { Generic, Param, Const, Global, Shared, Local };

/// A place in an initialiser that holds the address of a variable plus an offset.
struct AddressInitialiser {
  std::size_t at = 0; ///< byte in the variable
  std::string symbol;
  int64_t offset = 0;
  unsigned bytes = 8;
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type = Type::B8;
  uint64_t alignment = 1;
  uint64_t bytes = 0;
  bool external = false;              ///< `.extern .shared name[]`: the dynamic shared memory
  bool pointer = false;               ///< a parameter declared `.ptr`
  std::vector<std::byte> initialiser; ///< empty, or `bytes` long
  std::vector<AddressInitialiser> addresses;
};

struct Register {
  std::string name;
  Type type = Type::B32;
};

struct Operand {
  enum class Kind : uint8_t { Register, Integer, Float32, Float64, Symbol, Label, Special, Vector, Address, Sink };
  Kind kind = Kind::Sink;
  bool negated = false;          ///< `!%p`
  uint32_t index = 0;            ///< of the register
  uint64_t value = 0;            ///< the integer, or the bits of the fraction
  int64_t offset = 0;            ///< of an address or a symbol
  std::string name;              ///< as written
  std::vector<Operand> elements; ///< of a vector; the base of an address; the second of a pair `a|b`
};

struct Instruction {
  uint32_t line = 0;
  std::string text;                   ///< as written, blanks collapsed, without the semicolon
  std::string opcode;                 ///< "ld"
  std::vector<std::string> modifiers; ///< {"global", "v4", "f32"}
  std::vector<Operand> operands;
  int32_t guard = -1; ///< register
  bool guardNot = false;

  std::string form() const; ///< "ld.global.v4.f32"
};

struct Label {
  std::string name;
  uint32_t target = 0; ///< instruction
};

struct BranchTargets {
  std::string name;
  std::vector<std::string> labels;
};

struct Kernel {
  std::string name;
  uint32_t line = 0;
  std::vector<Variable> parameters;
  std::vector<Variable> variables; ///< .shared, .local of the body; a scope's own are renamed by it
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
  std::vector<Label> labels;
  std::vector<BranchTargets> branchTargets;
  std::array<uint32_t, 3> requiredThreads{}; ///< .reqntid, or zeros
  std::array<uint32_t, 3> maximalThreads{};  ///< .maxntid, or zeros
};

struct File {
  unsigned version = 0; ///< 70 for 7.0
  std::string target;
  std::vector<Variable> variables;
  std::vector<Kernel> kernels;
};

/// Parses PTX text. The Error says the line, the text there and what was expected.
Result<File> parse(std::string_view text);

} // namespace yaglom::emulator::syntax
