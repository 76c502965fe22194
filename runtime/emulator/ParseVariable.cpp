// Parses variables with their initialisers, and the numbers of PTX.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Parser.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace yaglom::emulator::syntax {
namespace {

std::optional<uint64_t> parseDigits(std::string_view digits, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  return value;
}

std::optional<Operand> makeNumber(Operand::Kind kind, std::optional<uint64_t> value) {
  if (!value)
    return std::nullopt;
  Operand operand;
  operand.kind = kind;
  operand.value = *value;
  return operand;
}

/// The size in bytes of `[4][8]`, in elements of `element` bytes; 0 for `[]`.
uint64_t dimensions(Cursor &cursor, uint64_t element) {
  uint64_t bytes = element;
  while (cursor.take("[")) {
    if (cursor.take("]")) {
      bytes = 0;
      continue;
    }
    const uint64_t count = cursor.unsignedInteger("the number of elements");
    if (__builtin_mul_overflow(bytes, count, &bytes) || bytes > kMaximalVariableBytes)
      cursor.fail("the variable is too large");
    cursor.expect("]");
  }
  return bytes;
}

/// A number, or the address of a variable, into the bytes at `at`.
void initialiserElement(Cursor &cursor, Variable &variable, std::size_t at) {
  const unsigned bytes = bytesOf(variable.type);
  const bool generic = cursor.peek().is("generic");
  if (generic)
    cursor.next(), cursor.expect("(");
  const bool minus = cursor.take("-");
  if (cursor.peek().kind == Token::Kind::Word && !minus) {
    AddressInitialiser address{at, cursor.name("a variable"), 0, bytes};
    if (generic)
      cursor.expect(")");
    if (cursor.take("+"))
      address.offset = static_cast<int64_t>(cursor.unsignedInteger("an offset"));
    if (bytes != 8)
      cursor.fail("an address takes 8 bytes");
    variable.addresses.push_back(std::move(address));
    return;
  }
  const std::optional<Operand> number = parseNumber(cursor.peek().text);
  if (!number)
    return cursor.fail("expected a number or a variable");
  cursor.next();
  uint64_t value = number->value;
  if (minus)
    value = number->kind == Operand::Kind::Float32   ? value ^ 0x80000000u
            : number->kind == Operand::Kind::Float64 ? value ^ (uint64_t{1} << 63)
                                                     : 0 - value;
  if (variable.type == Type::F32 && number->kind == Operand::Kind::Float64)
    value = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value)));
  if (at + bytes > variable.bytes)
    return cursor.fail("there are more values than elements");
  std::memcpy(variable.initialiser.data() + at, &value, bytes);
}

void initialiser(Cursor &cursor, Variable &variable, std::size_t &at, int depth) {
  if (depth > 8)
    return cursor.fail("the initialiser is nested too deeply");
  if (!cursor.take("{")) {
    initialiserElement(cursor, variable, at);
    at += bytesOf(variable.type);
    return;
  }
  if (cursor.take("}"))
    return;
  do
    initialiser(cursor, variable, at, depth + 1);
  while (cursor.take(",") && !cursor.failed());
  cursor.expect("}");
}

} // namespace

std::optional<Operand> parseNumber(std::string_view text) {
  if (text.size() == 10 && (text.starts_with("0f") || text.starts_with("0F")))
    return makeNumber(Operand::Kind::Float32, parseDigits(text.substr(2), 16));
  if (text.size() == 18 && (text.starts_with("0d") || text.starts_with("0D")))
    return makeNumber(Operand::Kind::Float64, parseDigits(text.substr(2), 16));
  if (text.find('.') != std::string_view::npos) {
    const std::string copy(text);
    char *end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    if (text.front() < '0' || text.front() > '9' || *end != '\0')
      return std::nullopt;
    return makeNumber(Operand::Kind::Float64, std::bit_cast<uint64_t>(value));
  }
  if (!text.empty() && text.back() == 'U')
    text.remove_suffix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X"))
    base = 16, text.remove_prefix(2);
  else if (text.starts_with("0b") || text.starts_with("0B"))
    base = 2, text.remove_prefix(2);
  else if (text.size() > 1 && text.front() == '0')
    base = 8, text.remove_prefix(1);
  return makeNumber(Operand::Kind::Integer, parseDigits(text, base));
}

Variable parseVariable(Cursor &cursor, Space space) {
  Variable variable;
  variable.space = space;
  bool aligned = false;
  unsigned elements = 1;
  while (!cursor.failed() && cursor.peek().kind == Token::Kind::Word && cursor.peek().text.front() == '.') {
    const std::string_view word = cursor.peek().text;
    if (word == ".align") {
      cursor.next();
      variable.alignment = cursor.unsignedInteger("an alignment");
      aligned |= !variable.pointer; // `.ptr .global .align 16` speaks of what is pointed at
      if (!std::has_single_bit(variable.alignment) || variable.alignment > 65536)
        cursor.fail("an alignment is a power of 2, at most 65536");
      if (variable.pointer)
        variable.alignment = 1;
      continue;
    }
    if (word == ".ptr")
      variable.pointer = true;
    else if (word == ".v2" || word == ".v4")
      elements = static_cast<unsigned>(word.back() - '0');
    else if (const Type type = parseType(word.substr(1)); type != Type::None && type != Type::Pred)
      variable.type = type;
    else if (!spaceOf(word) && word != ".attribute" && word != ".managed")
      cursor.fail("unknown type");
    cursor.next();
  }
  variable.name = cursor.name("a variable's name");
  const uint64_t element = uint64_t{bytesOf(variable.type)} * elements;
  variable.bytes = dimensions(cursor, element);
  if (!aligned)
    variable.alignment = element;
  if (!cursor.take("="))
    return variable;
  if (space != Space::Const && space != Space::Global)
    cursor.fail("only .const and .global variables have an initialiser");
  variable.initialiser.resize(variable.bytes);
  std::size_t at = 0;
  initialiser(cursor, variable, at, 0);
  return variable;
}

} // namespace yaglom::emulator::syntax
