// Parses the module level of PTX: directives, module variables, kernels and their parameters.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::emulator::syntax {

const Token &Cursor::next() {
  const Token &token = peek();
  if (!failed() && at + 1 < tokens.size())
    ++at;
  return token;
}

bool Cursor::take(std::string_view sign) {
  if (failed() || !peek().is(sign))
    return false;
  next();
  return true;
}

void Cursor::expect(std::string_view sign) {
  if (!take(sign))
    fail(fmt::format("expected '{}'", sign));
}

std::string Cursor::name(std::string_view what) {
  if (peek().kind != Token::Kind::Word || peek().text.front() == '.') {
    fail(fmt::format("expected {}", what));
    return "";
  }
  return std::string(next().text);
}

uint64_t Cursor::unsignedInteger(std::string_view what) {
  const std::optional<Operand> number =
      peek().kind == Token::Kind::Number ? parseNumber(peek().text) : std::optional<Operand>();
  if (!number || number->kind != Operand::Kind::Integer) {
    fail(fmt::format("expected {}", what));
    return 0;
  }
  next();
  return number->value;
}

void Cursor::fail(std::string_view what) {
  const Token &token = peek();
  failAt(token.line, token.kind == Token::Kind::End ? std::string_view("the end of the text") : token.text, what);
}

void Cursor::failAt(uint32_t line, std::string_view found, std::string_view what) {
  if (!error)
    error = Error(fmt::format("line {}: '{}': {}", line, found, what));
}

std::optional<Space> spaceOf(std::string_view directive) {
  if (directive == ".shared")
    return Space::Shared;
  if (directive == ".global")
    return Space::Global;
  if (directive == ".const")
    return Space::Const;
  if (directive == ".local")
    return Space::Local;
  if (directive == ".param")
    return Space::Param;
  return std::nullopt;
}

namespace {

/// 1.2 -> 12
unsigned parseVersion(std::string_view text) {
  unsigned value = 0;
  for (const char c : text)
    if (c >= '0' && c <= '9')
      value = std::min(value, 100000u) * 10 + static_cast<unsigned>(c - '0');
  return value;
}

class ModuleParser {
public:
  explicit ModuleParser(Cursor cursor) : cursor(std::move(cursor)) {}

  Result<File> run() {
    if (!cursor.peek().is(".version"))
      cursor.fail("a PTX text begins with .version");
    while (!cursor.failed() && cursor.peek().kind != Token::Kind::End)
      directive();
    if (!cursor.failed() && file.target.empty())
      cursor.fail("there is no .target");
    if (cursor.failed())
      return cursor.takeError();
    return std::move(file);
  }

private:
  void directive() {
    const std::string_view word = cursor.peek().text;
    if (word == ".version") {
      cursor.next();
      file.version = parseVersion(cursor.next().text);
    } else if (word == ".target") {
      cursor.next();
      file.target = cursor.name("a target");
      while (cursor.take(","))
        cursor.name("a target's option");
    } else if (word == ".address_size") {
      cursor.next();
      if (cursor.unsignedInteger("64") != 64)
        cursor.fail("only .address_size 64 is supported");
    } else if (word == ".file") {
      skipLine();
    } else if (word == ".section") {
      cursor.next();
      cursor.next();
      skipBraces();
    } else if (word == ".pragma") {
      cursor.next();
      cursor.next();
      cursor.expect(";");
    } else {
      linkage();
    }
  }

  void skipLine() {
    const uint32_t line = cursor.peek().line;
    while (cursor.peek().line == line && cursor.peek().kind != Token::Kind::End && !cursor.failed())
      cursor.next();
  }

  /// `{ ... }` with what is nested in it.
  void skipBraces() {
    cursor.expect("{");
    for (int depth = 1; depth > 0 && !cursor.failed();) {
      if (cursor.peek().kind == Token::Kind::End)
        return cursor.fail("a brace is not closed");
      const Token &token = cursor.next();
      depth += token.is("{") ? 1 : token.is("}") ? -1 : 0;
    }
  }

  void linkage() {
    bool external = false;
    while (cursor.peek().is(".visible") || cursor.peek().is(".extern") || cursor.peek().is(".weak") ||
           cursor.peek().is(".common"))
      external |= cursor.next().is(".extern");
    if (cursor.take(".entry"))
      return entry();
    if (cursor.take(".func"))
      return function();
    const std::optional<Space> space = spaceOf(cursor.peek().text);
    if (!space || *space == Space::Param)
      return cursor.fail("unknown directive");
    cursor.next();
    do {
      Variable variable = parseVariable(cursor, *space);
      variable.external = external && *space == Space::Shared && variable.bytes == 0;
      if (external && *space != Space::Shared && !cursor.failed())
        cursor.fail(fmt::format("'{}' is defined in another module", variable.name));
      if (!cursor.failed() && std::any_of(file.variables.begin(), file.variables.end(),
                                          [&](const Variable &other) { return other.name == variable.name; }))
        cursor.fail(fmt::format("'{}' is defined twice", variable.name));
      file.variables.push_back(std::move(variable));
    } while (cursor.take(","));
    cursor.expect(";");
  }

  /// A device function is skipped; a call to it is refused where it stands.
  void function() {
    while (!cursor.failed() && !cursor.peek().is("{") && !cursor.peek().is(";")) {
      if (cursor.peek().kind == Token::Kind::End)
        return cursor.fail("expected the body of a function");
      cursor.next();
    }
    if (!cursor.take(";"))
      skipBraces();
  }

  void parameters(Kernel &kernel) {
    if (!cursor.take("(") || cursor.take(")"))
      return;
    do {
      cursor.expect(".param");
      kernel.parameters.push_back(parseVariable(cursor, Space::Param));
    } while (cursor.take(",") && !cursor.failed());
    cursor.expect(")");
  }

  std::array<uint32_t, 3> threads() {
    std::array<uint32_t, 3> values{1, 1, 1};
    std::size_t axis = 0;
    do {
      const uint64_t value = cursor.unsignedInteger("a number of threads");
      if (axis == 3 || value == 0 || value > 0xffffffffu) {
        cursor.fail("expected up to three positive numbers");
        break;
      }
      values[axis++] = static_cast<uint32_t>(value);
    } while (cursor.take(","));
    return values;
  }

  void performanceDirectives(Kernel &kernel) {
    while (!cursor.failed() && !cursor.peek().is("{")) {
      if (cursor.take(".reqntid")) {
        kernel.requiredThreads = threads();
      } else if (cursor.take(".maxntid")) {
        kernel.maximalThreads = threads();
      } else if (cursor.take(".minnctapersm") || cursor.take(".maxnreg") || cursor.take(".maxclusterrank") ||
                 cursor.take(".maxnctapersm")) {
        cursor.unsignedInteger("a number");
      } else if (cursor.take(".noreturn") || cursor.take(".blocksareclusters") || cursor.take(".explicitcluster")) {
      } else if (cursor.take(".reqnctapercluster")) {
        if (threads() != std::array<uint32_t, 3>{1, 1, 1})
          cursor.fail("clusters of several blocks are not supported");
      } else if (cursor.take(".pragma")) {
        cursor.next();
        cursor.expect(";");
      } else {
        cursor.fail("unknown directive of a kernel");
      }
    }
  }

  void entry() {
    Kernel kernel;
    kernel.line = cursor.peek().line;
    kernel.name = cursor.name("the kernel's name");
    parameters(kernel);
    performanceDirectives(kernel);
    if (!cursor.failed() && std::any_of(file.kernels.begin(), file.kernels.end(),
                                        [&](const Kernel &other) { return other.name == kernel.name; }))
      cursor.fail(fmt::format("the kernel '{}' is defined twice", kernel.name));
    parseBody(cursor, file, kernel);
    file.kernels.push_back(std::move(kernel));
  }

  Cursor cursor;
  File file;
};

} // namespace

std::string Instruction::form() const {
  std::string text = opcode;
  for (const std::string &modifier : modifiers)
    text += "." + modifier;
  return text;
}

Result<File> parse(std::string_view text) {
  Result<std::vector<Token>> tokens = tokenize(text);
  if (!tokens)
    return tokens.error();
  return ModuleParser(Cursor(text, std::move(*tokens))).run();
}

} // namespace yaglom::emulator::syntax
