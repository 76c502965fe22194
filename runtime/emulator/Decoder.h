// Turns one parsed instruction into an operation: operands to slots, modifiers checked; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Program.h"

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace yaglom::emulator {

class Decoder;

/// An instruction that a family knows: its types in one string, and what decodes it. Together the rows are the table of
/// all instructions.
struct InstructionRow {
  std::string_view opcode;
  std::string_view types; ///< "u32 s32 f32"; empty when there is none
  void (*decode)(Decoder &decoder) = nullptr;
};

std::span<const InstructionRow> integerRows();
std::span<const InstructionRow> bitRows();
std::span<const InstructionRow> moveRows();
std::span<const InstructionRow> floatRows();
std::span<const InstructionRow> halfRows();
std::span<const InstructionRow> functionRows();
std::span<const InstructionRow> compareRows();
std::span<const InstructionRow> convertRows();
std::span<const InstructionRow> memoryRows();
std::span<const InstructionRow> atomicRows();
std::span<const InstructionRow> asyncRows();
std::span<const InstructionRow> controlRows();
std::span<const InstructionRow> warpRows();
std::span<const InstructionRow> matrixRows();

/// The state of decoding one instruction, and the registers of its kernel. The first mistake is kept; after it everything
/// returns harmless values, so that a row needs no checks.
class Decoder {
public:
  Decoder(const syntax::File &file, const syntax::Kernel &kernel);

  Result<Program> run();

  Op op;
  /// The type of the instruction: its last modifier that is one.
  Type type() const { return currentType; }
  Program &program() { return made; }

  // Modifiers. Those that no call takes are refused.
  bool take(std::string_view modifier);
  /// The index of the first of `names` that the instruction has, or `otherwise`.
  int takeOneOf(std::initializer_list<std::string_view> names, int otherwise = -1);
  /// As takeOneOf, and a mistake when it has none.
  int requireOneOf(std::initializer_list<std::string_view> names);
  /// The first modifier that is a type and is not taken, or None.
  Type takeType();
  std::vector<std::string> takeAll();

  // Operands.
  std::size_t operands() const { return current->operands.size(); }
  void expectOperands(std::size_t least, std::size_t most);
  const syntax::Operand &operand(std::size_t at);
  /// The slot of a value of `bits` (1: a predicate's index; 8 reads wider registers); immediates become constants.
  uint32_t source(const syntax::Operand &operand, unsigned bits, Type type = Type::None);
  uint32_t destination(const syntax::Operand &operand, unsigned bits);
  /// As above for loads, stores and conversions: the register may be wider. Returns its width, 32 or 64 (of slots).
  uint32_t looseSource(const syntax::Operand &operand, Type type, bool &wide);
  uint32_t looseDestination(const syntax::Operand &operand, Type type, bool &wide);
  /// A predicate, perhaps negated.
  uint32_t predicate(const syntax::Operand &operand, bool &negated);
  /// A slot of its own for each use: where results that nobody reads go.
  uint32_t scratch(bool wide);
  uint32_t scratchPredicate();
  uint32_t constant(uint64_t value, bool wide);
  uint32_t constantPredicate(bool value);
  /// `[base+offset]` of a 64-bit or 32-bit address: slot and displacement. Bit 0 of the result's second: the base is wide.
  uint32_t address(const syntax::Operand &operand, syntax::Space space, bool &wide, int64_t &displacement);
  uint64_t immediate(const syntax::Operand &operand);
  uint32_t label(const std::string &name);
  /// The state space of the modifiers, Generic when there is none.
  syntax::Space takeSpace();
  const syntax::BranchTargets *branchTargets(const std::string &name) const;
  const syntax::Kernel &kernel() const { return source_; }
  const std::string &target() const { return file.target; }

  void fail(std::string message);
  bool failed() const { return !error.empty(); }

private:
  struct Register {
    uint32_t slot = 0;
    Type type = Type::B32;
  };
  const InstructionRow *findRow();
  void instruction(const syntax::Instruction &in);
  void layout();
  uint64_t place(const syntax::Variable &variable, uint64_t &end);
  std::optional<uint64_t> symbolAddress(const std::string &name, syntax::Space &space) const;
  uint32_t special(const std::string &name, unsigned bits);
  uint64_t bitsOfImmediate(const syntax::Operand &operand, unsigned bits, Type type);

  const syntax::File &file;
  const syntax::Kernel &source_;
  const syntax::Instruction *current = nullptr;
  std::vector<bool> taken;
  Type currentType = Type::None;
  std::string error;
  Program made;
  std::vector<Register> registers;
  std::unordered_map<std::string, std::pair<syntax::Space, uint64_t>> symbols;
  std::unordered_map<std::string, uint32_t> labels;
  std::unordered_map<std::string, uint32_t> formIndex;
  std::map<std::tuple<bool, uint64_t>, uint32_t> constants;
  std::map<std::tuple<bool, uint8_t>, uint32_t> specials;
};

} // namespace yaglom::emulator
