// Parses the body of a kernel: registers, variables, labels and instructions, in nested scopes.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Parser.h"

#include <fmt/format.h>

#include <unordered_map>

namespace yaglom::emulator::syntax {
namespace {

/// Splits "ld.shared::cta.v4.f32" at its points.
void splitOpcode(std::string_view text, Instruction &into) {
  std::size_t begin = text.find('.');
  into.opcode = text.substr(0, begin);
  while (begin != std::string_view::npos) {
    const std::size_t end = text.find('.', begin + 1);
    into.modifiers.emplace_back(text.substr(begin + 1, end == std::string_view::npos ? end : end - begin - 1));
    begin = end;
  }
}

std::string collapseBlanks(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  return out;
}

class BodyParser {
public:
  BodyParser(Cursor &cursor, const File &file, Kernel &kernel) : cursor(cursor), kernel(kernel) {
    scopes.emplace_back();
    for (const Variable &variable : file.variables)
      scopes.back().variables[variable.name] = variable.name;
    for (const Variable &parameter : kernel.parameters)
      scopes.back().variables[parameter.name] = parameter.name;
  }

  void run() {
    cursor.expect("{");
    scopes.emplace_back();
    while (!cursor.failed() && scopes.size() > 1)
      statement();
  }

private:
  struct Scope {
    std::unordered_map<std::string, uint32_t> registers;
    std::unordered_map<std::string, std::string> variables; ///< to the unique name
  };

  void statement() {
    const Token &token = cursor.peek();
    if (cursor.take("{")) {
      if (scopes.size() > 64)
        cursor.fail("scopes are nested too deeply");
      scopes.emplace_back();
    } else if (cursor.take("}")) {
      scopes.pop_back();
    } else if (cursor.take(";")) {
    } else if (token.kind == Token::Kind::Word && token.text.front() == '.') {
      directive();
    } else if (token.kind == Token::Kind::Word && cursor.peek(1).is(":")) {
      label();
    } else if (token.kind == Token::Kind::Word || token.is("@")) {
      instruction();
    } else {
      cursor.fail("expected an instruction");
    }
  }

  void directive() {
    if (cursor.take(".reg"))
      return registers();
    if (cursor.peek().is(".loc") || cursor.peek().is(".file")) {
      const uint32_t line = cursor.peek().line;
      while (cursor.peek().line == line && cursor.peek().kind != Token::Kind::End)
        cursor.next();
      return;
    }
    if (cursor.take(".pragma")) {
      cursor.next();
      return cursor.expect(";");
    }
    const std::optional<Space> space = spaceOf(cursor.peek().text);
    if (!space || *space == Space::Const)
      return cursor.fail("unknown directive");
    cursor.next();
    do {
      Variable variable = parseVariable(cursor, *space);
      const std::string unique =
          scopes.size() == 2 ? variable.name : fmt::format("{}@{}", variable.name, kernel.variables.size());
      if (!cursor.failed() && !scopes.back().variables.emplace(variable.name, unique).second)
        cursor.fail(fmt::format("'{}' is declared twice", variable.name));
      variable.name = unique;
      kernel.variables.push_back(std::move(variable));
    } while (cursor.take(",") && !cursor.failed());
    cursor.expect(";");
  }

  void addRegister(const std::string &name, Type type) {
    if (kernel.registers.size() >= kMaximalRegisters)
      return cursor.fail("there are too many registers");
    scopes.back().registers[name] = static_cast<uint32_t>(kernel.registers.size());
    kernel.registers.push_back({name, type});
  }

  /// `.reg .b32 %r<5>, %x;`
  void registers() {
    const std::string_view word = cursor.peek().text;
    const Type type = word.starts_with('.') ? parseType(word.substr(1)) : Type::None;
    if (type == Type::None || (bitsOf(type) == 8 && !isFloat(type)) || type == Type::B128)
      return cursor.fail("registers of this type are not supported");
    cursor.next();
    do {
      const std::string name = cursor.name("a register");
      if (!cursor.take("<")) {
        addRegister(name, type);
        continue;
      }
      const uint64_t count = cursor.unsignedInteger("a number of registers");
      cursor.expect(">");
      for (uint64_t i = 0; i < count && !cursor.failed(); ++i)
        addRegister(name + std::to_string(i), type);
    } while (cursor.take(",") && !cursor.failed());
    cursor.expect(";");
  }

  void label() {
    std::string name(cursor.next().text);
    cursor.next();
    if (cursor.take(".branchtargets")) {
      BranchTargets targets{std::move(name), {}};
      do
        targets.labels.push_back(cursor.name("a label"));
      while (cursor.take(",") && !cursor.failed());
      kernel.branchTargets.push_back(std::move(targets));
      return cursor.expect(";");
    }
    kernel.labels.push_back({std::move(name), static_cast<uint32_t>(kernel.instructions.size())});
  }

  void instruction() {
    if (kernel.instructions.size() >= kMaximalInstructions)
      return cursor.fail("there are too many instructions");
    Instruction made;
    made.line = cursor.peek().line;
    const std::size_t begin = cursor.peek().offset;
    if (cursor.take("@")) {
      made.guardNot = cursor.take("!");
      const Operand guard = operand();
      if (!cursor.failed() &&
          (guard.kind != Operand::Kind::Register || kernel.registers[guard.index].type != Type::Pred))
        cursor.fail("a guard is a predicate register");
      made.guard = static_cast<int32_t>(guard.index);
    }
    if (cursor.peek().kind != Token::Kind::Word || cursor.peek().text.front() == '.')
      return cursor.fail("expected an instruction");
    splitOpcode(cursor.next().text, made);
    if (made.opcode == "call")
      return cursor.failAt(made.line, "call", "calls of functions are not supported");
    if (!cursor.peek().is(";"))
      do
        made.operands.push_back(operand());
      while (cursor.take(",") && !cursor.failed());
    const std::size_t end = cursor.peek().offset;
    cursor.expect(";");
    if (cursor.failed())
      return;
    made.text = collapseBlanks(cursor.source(begin, end));
    kernel.instructions.push_back(std::move(made));
  }

  Operand operand(int depth = 0) {
    Operand made;
    if (depth > 3) {
      cursor.fail("operands are nested too deeply");
      return made;
    }
    if (cursor.take("{"))
      return vector(depth);
    if (cursor.take("["))
      return address(depth);
    if (cursor.take("!")) {
      made = operand(depth + 1);
      made.negated = !made.negated;
      return made;
    }
    if (cursor.peek().is("-") || cursor.peek().kind == Token::Kind::Number)
      return number();
    made = named();
    if (cursor.take("|"))
      made.elements.push_back(operand(depth + 1));
    if ((made.kind == Operand::Kind::Symbol || made.kind == Operand::Kind::Label) && cursor.take("+"))
      made.offset = static_cast<int64_t>(cursor.unsignedInteger("an offset"));
    return made;
  }

  Operand number() {
    const bool minus = cursor.take("-");
    std::optional<Operand> made =
        cursor.peek().kind == Token::Kind::Number ? parseNumber(cursor.peek().text) : std::optional<Operand>();
    if (!made) {
      cursor.fail("expected a number");
      return {};
    }
    made->name = (minus ? "-" : "") + std::string(cursor.next().text);
    if (minus)
      made->value = made->kind == Operand::Kind::Integer   ? 0 - made->value
                    : made->kind == Operand::Kind::Float32 ? made->value ^ 0x80000000u
                                                           : made->value ^ (uint64_t{1} << 63);
    return *made;
  }

  Operand vector(int depth) {
    Operand made;
    made.kind = Operand::Kind::Vector;
    do
      made.elements.push_back(operand(depth + 1));
    while (cursor.take(",") && !cursor.failed());
    cursor.expect("}");
    return made;
  }

  Operand address(int depth) {
    Operand made;
    made.kind = Operand::Kind::Address;
    Operand base = operand(depth + 1);
    made.offset = base.offset;
    base.offset = 0;
    made.elements.push_back(std::move(base));
    if (cursor.take("+")) {
      const Operand offset = number();
      if (!cursor.failed() && offset.kind != Operand::Kind::Integer)
        cursor.fail("an offset is a whole number");
      made.offset = static_cast<int64_t>(offset.value);
    } else if (cursor.peek().is("-")) {
      made.offset = static_cast<int64_t>(number().value);
    }
    cursor.expect("]");
    return made;
  }

  /// A register, special register, variable, label or sink.
  Operand named() {
    Operand made;
    if (cursor.peek().kind != Token::Kind::Word || cursor.peek().text.front() == '.') {
      cursor.fail("expected an operand");
      return made;
    }
    const std::string_view word = cursor.peek().text;
    made.name = word;
    if (word == "_") {
      made.kind = Operand::Kind::Sink;
    } else if (const auto index = findRegister(made.name)) {
      made.kind = Operand::Kind::Register;
      made.index = *index;
    } else if (const std::string *unique = findVariable(made.name)) {
      made.kind = Operand::Kind::Symbol;
      made.name = *unique;
    } else if (word.front() == '%') {
      made.kind = Operand::Kind::Special; // the decoder knows which exist
    } else {
      made.kind = Operand::Kind::Label;
    }
    cursor.next();
    return made;
  }

  std::optional<uint32_t> findRegister(const std::string &name) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      if (const auto found = scope->registers.find(name); found != scope->registers.end())
        return found->second;
    return std::nullopt;
  }

  const std::string *findVariable(const std::string &name) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      if (const auto found = scope->variables.find(name); found != scope->variables.end())
        return &found->second;
    return nullptr;
  }

  Cursor &cursor;
  Kernel &kernel;
  std::vector<Scope> scopes;
};

} // namespace

void parseBody(Cursor &cursor, const File &file, Kernel &kernel) { BodyParser(cursor, file, kernel).run(); }

} // namespace yaglom::emulator::syntax
