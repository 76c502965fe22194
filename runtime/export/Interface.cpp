// Names of the language ("flow.0.scale.W0") become members of C structs ("flow_0_scale_W0").
// SPDX-License-Identifier: Apache-2.0
#include "runtime/export/Interface.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string_view>

namespace yaglom::exporting {
namespace {

/// Words of C and C++ that are no names, and what compilers define.
constexpr std::string_view kKeywords[] = {"alignas",
                                          "alignof",
                                          "and",
                                          "asm",
                                          "auto",
                                          "bitand",
                                          "bitor",
                                          "bool",
                                          "break",
                                          "case",
                                          "catch",
                                          "char",
                                          "class",
                                          "co_await",
                                          "co_return",
                                          "co_yield",
                                          "compl",
                                          "concept",
                                          "const",
                                          "consteval",
                                          "constexpr",
                                          "constinit",
                                          "const_cast",
                                          "continue",
                                          "decltype",
                                          "default",
                                          "delete",
                                          "do",
                                          "double",
                                          "dynamic_cast",
                                          "else",
                                          "enum",
                                          "explicit",
                                          "export",
                                          "extern",
                                          "false",
                                          "float",
                                          "for",
                                          "friend",
                                          "goto",
                                          "if",
                                          "inline",
                                          "int",
                                          "long",
                                          "mutable",
                                          "namespace",
                                          "new",
                                          "noexcept",
                                          "not",
                                          "nullptr",
                                          "operator",
                                          "or",
                                          "private",
                                          "protected",
                                          "public",
                                          "register",
                                          "reinterpret_cast",
                                          "requires",
                                          "restrict",
                                          "return",
                                          "short",
                                          "signed",
                                          "sizeof",
                                          "static",
                                          "static_assert",
                                          "static_cast",
                                          "struct",
                                          "switch",
                                          "template",
                                          "this",
                                          "thread_local",
                                          "throw",
                                          "true",
                                          "try",
                                          "typedef",
                                          "typeid",
                                          "typename",
                                          "union",
                                          "unsigned",
                                          "using",
                                          "virtual",
                                          "void",
                                          "volatile",
                                          "wchar_t",
                                          "while",
                                          "xor",
                                          "linux",
                                          "unix"};

/// Gives every tensor a member of its own: "a.b_c" and "a_b.c" would be one.
class Members {
public:
  explicit Members(std::set<std::string> taken) : taken(std::move(taken)) {}

  std::string add(const std::string &name) {
    const std::string plain = toIdentifier(name);
    std::string member = plain;
    for (int i = 2; !isIdentifier(member) || !taken.insert(member).second; ++i)
      member = fmt::format("{}_{}", plain, i);
    return member;
  }

private:
  std::set<std::string> taken;
};

std::string noteOf(const runtime::Compiled &compiled, const std::string &name) {
  for (const TensorInfo &info : compiled.tensors)
    if (info.name == name && info.role == TensorRole::Draw)
      return "drawn " + info.initial;
    else if (info.name == name && !info.initial.empty())
      return "starts as " + info.initial;
  return "starts at 0";
}

} // namespace

int64_t HeadTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape)
    count *= size;
  return count;
}

bool isIdentifier(const std::string &name) {
  const auto fits = [](unsigned char c) { return c == '_' || (c < 128 && std::isalnum(c)); };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::find(std::begin(kKeywords), std::end(kKeywords), name) == std::end(kKeywords) &&
         std::all_of(name.begin(), name.end(), fits);
}

std::string toIdentifier(const std::string &text) {
  std::string result;
  for (const char c : text)
    result += isIdentifier(std::string("a") + c) ? c : '_';
  return result;
}

const char *toC(DType type) { return type == DType::f64 ? "double" : type == DType::f32 ? "float" : "uint16_t"; }

std::string axes(const Interface &interface, const TokenTensor &tensor) {
  return fmt::format("[B, H, {}, {}]", tensor.ofKeys && !interface.equalLengths ? "M" : "N", tensor.width);
}

std::string axes(const HeadTensor &tensor) {
  std::string text = tensor.shared ? "" : "H";
  for (const int64_t size : tensor.shape)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return "[" + text + "]";
}

std::string symbolPrefix(const std::string &name, const Target &target) {
  return fmt::format("{}_{}_", name, toIdentifier(target.name()));
}

Interface describe(const runtime::Compiled &compiled, const std::string &name) {
  Interface interface;
  interface.name = name;
  interface.dims = compiled.instance.dims;
  interface.equalLengths = compiled.equalLengths;
  interface.element = compiled.options.dtype;
  interface.number = compiled.parameterType();
  const auto width = [](const std::vector<int64_t> &row) { return row.empty() ? 1 : row[0]; };
  Members inputs({});
  for (const InputInfo &input : compiled.instance.inputs)
    interface.inputs.push_back(
        {input.name, inputs.add(input.name), input.side == Side::Key && !compiled.equalLengths, width(input.shape)});
  interface.output = {"O", "O", false, width(compiled.instance.output)};
  // The same names serve gradients, which stand beside those of inputs.
  Members heads({"heads"});
  for (const TokenTensor &input : interface.inputs)
    heads.add(input.member);
  for (const std::size_t place : compiled.forwardTensors) {
    const runtime::HeadTensor &tensor = compiled.headTensors[place];
    interface.heads.push_back(
        {tensor.name, heads.add(tensor.name), tensor.shared, tensor.shape, noteOf(compiled, tensor.name)});
  }
  return interface;
}

} // namespace yaglom::exporting
