// NAME.c of an export: tables of this attention, then the C that all exports have.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/nvgpu/KernelAbi.h"
#include "runtime/export/Interface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace yaglom::exporting {
namespace {

constexpr const char *kCheck =
#include "runtime/export/check.c.inc"
    ;
constexpr const char *kGradients =
#include "runtime/export/gradients.c.inc"
    ;
constexpr const char *kCpu =
#include "runtime/export/cpu.c.inc"
    ;
constexpr const char *kCpuBackward =
#include "runtime/export/cpu_backward.c.inc"
    ;
constexpr const char *kGpu =
#include "runtime/export/gpu.c.inc"
    ;
constexpr const char *kGpuBackward =
#include "runtime/export/gpu_backward.c.inc"
    ;

void replace(std::string &text, const std::string &from, const std::string &to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string tokenText(const TokenTensor &tensor) {
  return fmt::format("{{\"{}\", {}, {}}}", tensor.name, tensor.ofKeys ? 1 : 0, tensor.width);
}

std::string headText(const HeadTensor &tensor) {
  return fmt::format("{{\"{}\", {}, {}, {}}}", tensor.name, tensor.shared ? 1 : 0, tensor.elements(), tensor.width());
}

/// What the C functions know of this attention.
std::string tables(const Interface &interface, bool backward) {
  std::vector<std::string> inputs, heads, gradients, ofHeads;
  for (const TokenTensor &input : interface.inputs) {
    inputs.push_back(tokenText(input));
    gradients.push_back(fmt::format("\"grad.{}\"", input.name));
  }
  for (const HeadTensor &head : interface.heads) {
    heads.push_back(headText(head));
    ofHeads.push_back(fmt::format("\"grad.{}\"", head.name));
  }
  if (heads.empty()) { // no array has no element
    heads.push_back("{NULL, 0, 0, 0}");
    ofHeads.push_back("NULL");
  }
  std::string text = fmt::format("static const struct token kInputTensors[] = {{{}}};\n"
                                 "static const struct token kOutputTensor = {};\n"
                                 "static const struct head kHeadTensors[] = {{{}}};\n",
                                 fmt::join(inputs, ", "), tokenText(interface.output), fmt::join(heads, ", "));
  if (backward)
    text += fmt::format("static const char *const kGradientNames[] = {{{}}};\n"
                        "static const char *const kHeadGradientNames[] = {{{}}};\n",
                        fmt::join(gradients, ", "), fmt::join(ofHeads, ", "));
  return text;
}

/// Functions that turn the members of a struct into an array.
std::string finders(const Interface &interface) {
  std::string text = "static void find_inputs(const NAME_inputs *from, struct view *to) {\n";
  for (std::size_t i = 0; i < interface.inputs.size(); ++i)
    text += fmt::format("  to[{}] = view_const(&from->{});\n", i, interface.inputs[i].member);
  text += "}\n\nstatic void find_parameters(const NAME_parameters *from, intptr_t *to) {\n  (void)from;\n  (void)to;\n";
  for (std::size_t i = 0; i < interface.heads.size(); ++i)
    text += fmt::format("  to[{}] = (intptr_t)from->{};\n", i, interface.heads[i].member);
  return text + "}\n";
}

std::string gradientFinder(const Interface &interface) {
  std::string text = "\nstatic void find_gradients(const NAME_gradients *from, const NAME_tensor **inputs, "
                     "NAME_number **heads) {\n  (void)heads;\n";
  for (std::size_t i = 0; i < interface.inputs.size(); ++i)
    text += fmt::format("  inputs[{}] = &from->{};\n", i, interface.inputs[i].member);
  for (std::size_t i = 0; i < interface.heads.size(); ++i)
    text += fmt::format("  heads[{}] = from->{};\n", i, interface.heads[i].member);
  return text + "}\n";
}

template <typename T>
std::optional<std::size_t> place(const std::vector<T> &tensors, const std::string &name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const T &t) { return t.name == name; });
  return found == tensors.end() ? std::nullopt : std::optional<std::size_t>(found - tensors.begin());
}

/// One operand of a compiled function; nothing when it is no tensor of the attention.
std::optional<std::string> operandText(const Interface &interface, std::string name) {
  if (name == "O" || name == "grad.O")
    return "{OUTPUT, 0, 0}";
  const bool isGradient = name.starts_with("grad.");
  if (isGradient)
    name = name.substr(5);
  if (const auto input = place(interface.inputs, name))
    return fmt::format("{{{}, {}, 0}}", isGradient ? "GRADIENT_INPUT" : "INPUT", *input);
  if (const auto head = place(interface.heads, name))
    return fmt::format("{{{}, {}, 0}}", isGradient ? "GRADIENT_HEAD" : "HEAD", *head);
  return std::nullopt;
}

Result<std::string> operandsText(const Interface &interface, const compiler::Entry &entry,
                                 const std::vector<int64_t> &lent = {}) {
  std::vector<std::string> operands;
  for (const std::string &name : entry.operands) {
    std::optional<std::string> text = operandText(interface, name);
    if (!text)
      return Error(
          fmt::format("internal error: the compiled code of '{}' has an operand '{}', which is no tensor of it",
                      interface.name, name));
    operands.push_back(std::move(*text));
  }
  for (const int64_t width : lent)
    operands.push_back(fmt::format("{{LENT, 0, {}}}", width));
  return fmt::format("{{\n    {}}}", fmt::join(operands, ",\n    "));
}

/// The functions of processors' code, and which machine runs which.
std::string versionsText(const std::vector<Version> &versions) {
  std::string declarations, conditions, rows;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const Version &version = versions[i];
    const std::string &forward = version.forward.forward.symbol;
    declarations += fmt::format("extern void {}(const int64_t *, void *);\n", forward);
    std::string ofBackward;
    if (version.backward) {
      declarations += fmt::format("extern void {}(const int64_t *, void *);\n", version.backward->backward.symbol);
      ofBackward = fmt::format(", {}, {}", version.backward->backward.symbol, version.backward->scratchBytes);
    }
    conditions +=
        fmt::format("static int is_supported_{}(void) {{\n  return {};\n}}\n", i, supportCondition(version.target));
    rows += fmt::format("    {{\"{}\", is_supported_{}, {}, {}{}}},\n", version.target.name(), i, forward,
                        version.forward.scratchBytes, ofBackward);
  }
  return fmt::format(
      "/* words: sizes, then two for each operand: its address, and the distance of two rows in elements */\n"
      "typedef void (*entry)(const int64_t *words, void *scratch);\n\n"
      "struct version {{\n  const char *target;\n  int (*is_supported)(void);\n  entry forward;\n"
      "  size_t forward_scratch;\n{}}};\n\n{}\n{}\n"
      "/* the best first */\nstatic const struct version kVersions[] = {{\n{}}};\n\n",
      versions.front().backward ? "  entry backward;\n  size_t backward_scratch;\n" : "", declarations, conditions,
      rows);
}

/// Where the words of a kernel are that an export sets; the others are 0.
std::string kernelWords() {
  using compiler::nvgpu::KernelAbi;
  const std::pair<const char *, int64_t> words[] = {{"kWordQueryRows", KernelAbi::QueryRows},
                                                    {"kWordKeyRows", KernelAbi::KeyRows},
                                                    {"kWordPosition", KernelAbi::Position},
                                                    {"kWordLength", KernelAbi::Length},
                                                    {"kWordHeads", KernelAbi::Heads},
                                                    {"kWordScratch", KernelAbi::Scratch},
                                                    {"kWordScratchBytes", KernelAbi::ScratchBytes},
                                                    {"kWordParts", KernelAbi::Parts},
                                                    {"kWordPartRows", KernelAbi::PartRows},
                                                    {"kHeaderWords", KernelAbi::kHeaderWords},
                                                    {"kOperandWords", KernelAbi::kOperandWords}};
  std::string text;
  for (const auto &[name, value] : words)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
  return text;
}

} // namespace

Result<std::string> writeSource(const Interface &interface, const std::vector<Version> &versions) {
  const Version &first = versions.front();
  const bool backward = first.backward.has_value();
  const Result<std::string> forwardOperands = operandsText(interface, first.forward.forward);
  Result<std::string> backwardOperands = std::string();
  std::size_t most = first.forward.forward.operands.size();
  if (backward) {
    const compiler::GradientEntry &gradient = first.backward->backward;
    backwardOperands = operandsText(interface, gradient, gradient.rowWidths);
    most = std::max(most, gradient.operands.size() + gradient.rowWidths.size());
  }
  for (const auto *operands : {&forwardOperands, &std::as_const(backwardOperands)})
    if (!*operands)
      return operands->error();
  for (const Version &version : versions)
    if (version.forward.forward.operands != first.forward.forward.operands ||
        (backward && version.backward->backward.rowWidths != first.backward->backward.rowWidths))
      return Error("internal error: versions for two targets take different operands");

  std::string text = fmt::format("/* {}: {}. See {}.h. */\n#include \"{}.h\"\n\n#include <inttypes.h>\n"
                                 "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n",
                                 kWriter, interface.origin, interface.name, interface.name);
  std::string body = fmt::format("enum {{ kInputs = {}, kHeads = {}, kEqualLengths = {}, kMostOperands = {} }};\n\n",
                                 interface.inputs.size(), interface.heads.size(), interface.equalLengths ? 1 : 0, most);
  body += kCheck;
  const std::string marker = "/* TABLES */\n";
  body.replace(body.find(marker), marker.size(), tables(interface, backward) + "\n" + finders(interface));
  if (backward)
    body += gradientFinder(interface) + kGradients;
  if (first.isGpu())
    body += kGpu + std::string(backward ? kGpuBackward : "");
  else
    body += "\n" + versionsText(versions) + kCpu + (backward ? kCpuBackward : "");
  replace(body, "KERNEL_WORDS", kernelWords());
  replace(body, "FORWARD_OPERANDS", *forwardOperands);
  replace(body, "BACKWARD_OPERANDS", *backwardOperands);
  replace(body, "NAME_", interface.name + "_");
  replace(body, "of NAME\"", "of " + interface.name + "\"");
  return text + body;
}

} // namespace yaglom::exporting
