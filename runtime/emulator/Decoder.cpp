// Decodes a kernel: lays out its memories, finds each instruction in the families' tables, checks its modifiers.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace yaglom::emulator {

using syntax::Operand;
using syntax::Space;
using syntax::Variable;

namespace {

/// The tables of all families.
std::vector<std::span<const InstructionRow>> allRows() {
  return {integerRows(), bitRows(),    moveRows(),   floatRows(), halfRows(),    functionRows(), compareRows(),
          convertRows(), memoryRows(), atomicRows(), asyncRows(), controlRows(), warpRows(),     matrixRows()};
}

/// Calls `use` with each type of "u32 s32".
template <class Use>
void forEachType(std::string_view types, Use use) {
  if (types.empty())
    return use(Type::None);
  while (!types.empty()) {
    const std::size_t end = std::min(types.find(' '), types.size());
    use(parseType(types.substr(0, end)));
    types.remove_prefix(std::min(end + 1, types.size()));
  }
}

using Table = std::map<std::pair<std::string_view, Type>, const InstructionRow *>;

const Table &table() {
  static const Table kTable = [] {
    Table made;
    for (const std::span<const InstructionRow> rows : allRows())
      for (const InstructionRow &row : rows)
        forEachType(row.types, [&](Type type) { made.emplace(std::pair(row.opcode, type), &row); });
    return made;
  }();
  return kTable;
}

bool mentions(const Operand &operand, std::set<std::string> &names) {
  if (operand.kind == Operand::Kind::Symbol)
    names.insert(operand.name);
  for (const Operand &element : operand.elements)
    mentions(element, names);
  return true;
}

constexpr uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

} // namespace

Decoder::Decoder(const syntax::File &file, const syntax::Kernel &kernel) : file(file), source_(kernel) {}

uint64_t Decoder::place(const Variable &variable, uint64_t &end) {
  const uint64_t at = alignUp(end, std::max<uint64_t>(variable.alignment, 1));
  end = at + variable.bytes;
  return at;
}

void Decoder::layout() {
  std::set<std::string> used;
  for (const syntax::Instruction &instruction : source_.instructions)
    for (const Operand &operand : instruction.operands)
      mentions(operand, used);
  made.globals = file.variables;
  std::vector<const Variable *> all;
  for (const Variable &variable : file.variables)
    all.push_back(&variable);
  for (const Variable &variable : source_.variables)
    all.push_back(&variable);
  uint64_t dynamicAlignment = 1;
  std::size_t index = 0;
  for (const Variable *variable : all) {
    const bool ofModule = index < file.variables.size();
    switch (variable->space) {
    case Space::Shared:
      if (variable->external)
        dynamicAlignment = std::max(dynamicAlignment, variable->alignment);
      else if (used.contains(variable->name))
        symbols[variable->name] = {Space::Shared, place(*variable, made.staticSharedBytes)};
      break;
    case Space::Local:
      symbols[variable->name] = {Space::Local, place(*variable, made.localBytes)};
      break;
    case Space::Global:
    case Space::Const:
      if (ofModule)
        symbols[variable->name] = {variable->space, baseOfGlobal(index)};
      else
        fail(fmt::format("line {}: '{}': a kernel's own variable is .shared or .local", source_.line, variable->name));
      break;
    default:
      fail(fmt::format("line {}: '{}': parameters of calls are not supported", source_.line, variable->name));
    }
    ++index;
  }
  made.localBytes = alignUp(made.localBytes, 16);
  made.dynamicSharedOffset = alignUp(made.staticSharedBytes, dynamicAlignment);
  for (const Variable *variable : all)
    if (variable->external)
      symbols[variable->name] = {Space::Shared, made.dynamicSharedOffset};
  for (const Variable &parameter : source_.parameters)
    symbols[parameter.name] = {Space::Param, place(parameter, made.parameterBytes)};
  if (made.staticSharedBytes > (1u << 24) || made.localBytes > (1u << 24))
    fail(fmt::format("line {}: '{}': the shared or local variables are too large", source_.line, source_.name));
}

Result<Program> Decoder::run() {
  layout();
  for (const syntax::Register &reg : source_.registers) {
    registers.push_back({reg.type == Type::Pred ? made.predicates++ : made.slots, reg.type});
    if (reg.type != Type::Pred)
      made.slots += bitsOf(reg.type) == 64 ? 2 : 1;
  }
  for (const syntax::Label &label : source_.labels)
    if (!labels.emplace(label.name, label.target).second)
      fail(fmt::format("line {}: '{}': the label is defined twice", source_.line, label.name));
  for (const syntax::Instruction &in : source_.instructions) {
    if (failed())
      break;
    instruction(in);
  }
  if (failed())
    return Error(error);
  Op end;
  end.control = Control::Exit;
  end.index = static_cast<uint32_t>(made.ops.size());
  made.ops.push_back(end);
  const uint32_t line = source_.instructions.empty() ? source_.line : source_.instructions.back().line;
  made.info.push_back({line, static_cast<uint32_t>(made.forms.size()), "(end of the kernel)"});
  made.forms.emplace_back("(end)");
  std::sort(made.used.begin(), made.used.end());
  made.used.erase(std::unique(made.used.begin(), made.used.end()), made.used.end());
  return std::move(made);
}

/// By opcode and type; the last modifier that is a type, else the one before it (cvt has two).
const InstructionRow *Decoder::findRow() {
  for (std::size_t i = current->modifiers.size(); i-- > 0;) {
    const Type type = parseType(current->modifiers[i]);
    if (type == Type::None)
      continue;
    if (const auto row = table().find({current->opcode, type}); row != table().end()) {
      if (current->opcode == "cvt") // its own type is the first of the two
        for (std::size_t j = 0; j < i; ++j)
          if (const Type first = parseType(current->modifiers[j]); first != Type::None) {
            const auto other = table().find({current->opcode, first});
            currentType = first;
            return other == table().end() ? nullptr : other->second;
          }
      currentType = type;
      taken[i] = true;
      return row->second;
    }
    return nullptr;
  }
  currentType = Type::None;
  const auto row = table().find({current->opcode, Type::None});
  return row == table().end() ? nullptr : row->second;
}

void Decoder::instruction(const syntax::Instruction &in) {
  current = &in;
  taken.assign(in.modifiers.size(), false);
  op = Op();
  op.index = static_cast<uint32_t>(made.ops.size());
  const InstructionRow *row = findRow();
  if (!row) {
    const bool known =
        std::any_of(table().begin(), table().end(), [&](const auto &entry) { return entry.first.first == in.opcode; });
    return fail(known ? fmt::format("unknown form of instruction '{}'", in.opcode)
                      : fmt::format("unknown instruction '{}'", in.opcode));
  }
  if (in.guard >= 0) {
    op.guard = static_cast<int32_t>(registers[in.guard].slot);
    op.guardNot = in.guardNot;
  }
  row->decode(*this);
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (!taken[i])
      fail(fmt::format("unknown modifier '.{}'", in.modifiers[i]));
  if (failed())
    return;
  const std::string form = in.form();
  const auto [at, added] = formIndex.emplace(form, static_cast<uint32_t>(made.forms.size()));
  if (added)
    made.forms.push_back(form);
  made.ops.push_back(op);
  made.info.push_back({in.line, at->second, in.text});
  made.used.push_back({row->opcode, currentType});
}

void Decoder::fail(std::string message) {
  if (!error.empty())
    return;
  error = current ? fmt::format("line {}: '{}': {}", current->line, current->text, message) : std::move(message);
}

bool Decoder::take(std::string_view modifier) {
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (!taken[i] && current->modifiers[i] == modifier)
      return taken[i] = true;
  return false;
}

int Decoder::takeOneOf(std::initializer_list<std::string_view> names, int otherwise) {
  int index = 0;
  for (const std::string_view name : names) {
    if (take(name))
      return index;
    ++index;
  }
  return otherwise;
}

int Decoder::requireOneOf(std::initializer_list<std::string_view> names) {
  const int found = takeOneOf(names);
  if (found >= 0)
    return found;
  std::string list;
  for (const std::string_view name : names)
    list += fmt::format("{}.{}", list.empty() ? "" : ", ", name);
  fail(fmt::format("one of {} is missing", list));
  return 0;
}

Type Decoder::takeType() {
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (const Type type = parseType(current->modifiers[i]); !taken[i] && type != Type::None) {
      taken[i] = true;
      return type;
    }
  return Type::None;
}

std::vector<std::string> Decoder::takeAll() {
  taken.assign(taken.size(), true);
  return current->modifiers;
}

Space Decoder::takeSpace() {
  if (take("shared") || take("shared::cta"))
    return Space::Shared;
  if (take("global"))
    return Space::Global;
  if (take("param") || take("param::entry"))
    return Space::Param;
  if (take("local"))
    return Space::Local;
  if (take("const"))
    return Space::Const;
  return Space::Generic;
}

Result<Program> decode(const syntax::File &file, const syntax::Kernel &kernel) { return Decoder(file, kernel).run(); }

std::vector<KnownInstruction> knownInstructions() {
  std::vector<KnownInstruction> made;
  for (const auto &[key, row] : table())
    made.push_back({key.first, key.second});
  return made;
}

} // namespace yaglom::emulator
