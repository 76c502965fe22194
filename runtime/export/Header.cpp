// NAME.h and NAMEConfig.cmake of an export.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/export/Interface.h"

#include "compiler/targets/nvgpu/KernelAbi.h"
#include "runtime/SumKernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace yaglom::exporting {
namespace {

/// What headers are made of; NAME_ is the prefix, and @...@ is filled in.
constexpr const char *kBegin =
#include "runtime/export/begin.h.inc"
    ;
constexpr const char *kGradients =
#include "runtime/export/gradients.h.inc"
    ;
constexpr const char *kCpu =
#include "runtime/export/cpu.h.inc"
    ;
constexpr const char *kCpuBackward =
#include "runtime/export/cpu_backward.h.inc"
    ;
constexpr const char *kGpu =
#include "runtime/export/gpu.h.inc"
    ;
constexpr const char *kGpuBackward =
#include "runtime/export/gpu_backward.h.inc"
    ;
constexpr const char *kEnd = R"(
#ifdef __cplusplus
}
#endif

#endif
)";

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string fill(std::string text, const Fields &fields) {
  for (const auto &[key, value] : fields)
    for (std::size_t at; (at = text.find("@" + key + "@")) != std::string::npos;)
      text.replace(at, key.size() + 2, value);
  return text;
}

std::string inputMembers(const Interface &interface, const char *type) {
  std::string text;
  for (const TokenTensor &input : interface.inputs)
    text += fmt::format("  NAME_{} {}; /**< {} */\n", type, input.member, axes(interface, input));
  return text;
}

std::string headMembers(const Interface &interface, const char *type, bool areGradients) {
  std::string text;
  for (const HeadTensor &tensor : interface.heads)
    text += fmt::format("  {} *{}; /**< {} {}{} */\n", type, tensor.member, tensor.name, axes(tensor),
                        areGradients ? "; null: not wanted" : ", " + tensor.note);
  return text;
}

std::string dimMacros(const Interface &interface) {
  std::string text;
  for (const auto &[name, value] : interface.dims)
    text += fmt::format("#define NAME_DIM_{} {}\n", name, value);
  return text;
}

Fields gpuFields(const Interface &interface, const Version &version) {
  using compiler::nvgpu::KernelAbi;
  const compiler::Entry &forward = version.forward.forward;
  const std::string prefix = symbolPrefix(interface.name, version.target);
  const auto number = [](auto value) { return fmt::format("{}", value); };
  Fields fields{
      {"ARCHITECTURE", version.forward.code.architecture},
      {"THREADS", number(forward.gpu.threads)},
      {"FORWARD_FILE", prefix + "forward.ptx"},
      {"FORWARD_KERNEL", forward.gpu.name},
      {"HEADER_WORDS", number(KernelAbi::kHeaderWords)},
      {"FORWARD_WORDS", number(KernelAbi::words(static_cast<int64_t>(forward.operands.size())))},
      {"FORWARD_SHARED", number(forward.gpu.sharedBytes)},
      {"FORWARD_SCRATCH", number(forward.gpu.scratchBytes)},
      {"SUM_THREADS", number(runtime::kSumThreads)},
      {"NUMBER_NAME", toText(interface.number)},
      {"SUMS", number(interface.heads.size())},
  };
  if (!version.backward)
    return fields;
  const compiler::GradientEntry &backward = version.backward->backward;
  const auto operands = static_cast<int64_t>(backward.operands.size() + backward.rowWidths.size());
  for (const auto &field : Fields{{"BACKWARD_FILE", prefix + "backward.ptx"},
                                  {"BACKWARD_KERNEL", backward.gpu.name},
                                  {"BACKWARD_WORDS", number(KernelAbi::words(operands))},
                                  {"BACKWARD_SHARED", number(backward.gpu.sharedBytes)},
                                  {"BACKWARD_SCRATCH", number(backward.gpu.scratchBytes)}})
    fields.push_back(field);
  return fields;
}

/// Last, so that what is filled in may have the prefix too.
std::string withPrefix(std::string text, const std::string &name) {
  const auto replace = [&](const std::string &from, const std::string &to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("NAME_", name + "_");
  replace("NAME.", name + ".");
  return text;
}

} // namespace

std::string writeHeader(const Interface &interface, const std::vector<Version> &versions) {
  const Version &first = versions.front();
  const bool backward = first.backward.has_value();
  const bool isHalf = sizeOf(interface.element) == 2;
  const std::string number = "const NAME_number";
  std::string text = fill(
      kBegin, {{"WRITER", kWriter},
               {"DIMS", dimMacros(interface)},
               {"KEYS", interface.equalLengths ? ", which is that of keys too" : ", M that of keys"},
               {"ELEMENT_NOTE", isHalf ? fmt::format(": the bits of a {}", toText(interface.element)) : std::string()},
               {"ELEMENT", toC(interface.element)},
               {"NUMBER", toC(interface.number)},
               {"INPUTS", inputMembers(interface, "const_tensor")},
               {"PARAMETERS", headMembers(interface, number.c_str(), false)},
               {"ORIGIN", interface.origin}});
  if (backward)
    text += fill(kGradients, {{"INPUTS", inputMembers(interface, "tensor")},
                              {"PARAMETERS", headMembers(interface, "NAME_number", true)}});
  text += first.isGpu() ? kGpu : kCpu;
  if (backward)
    text += first.isGpu() ? kGpuBackward : kCpuBackward;
  text += kEnd;
  if (first.isGpu())
    text = fill(text, gpuFields(interface, first));
  text = fill(text, {{"OUTPUT", axes(interface, interface.output)},
                     {"BACKWARD_SCRATCH", backward ? " or NAME_backward_scratch_bytes()" : ""}});
  return withPrefix(std::move(text), interface.name);
}

std::string writeCMake(const Interface &interface, const std::vector<std::string> &code, bool isGpu) {
  const std::string folder = "${CMAKE_CURRENT_LIST_DIR}/";
  std::vector<std::string> sources{folder + interface.name + ".c"}, files;
  for (const std::string &file : code)
    files.emplace_back(folder).append(file);
  if (!isGpu)
    sources.insert(sources.end(), files.begin(), files.end());
  std::string text = fmt::format(R"(# {}: {}.
# find_package({} CONFIG PATHS this/folder), or include() this file: the static library {}, in a project with language C.
if(NOT TARGET {})
  add_library({} STATIC
    "{}")
  target_include_directories({} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
  set_target_properties({} PROPERTIES
    C_STANDARD 99 C_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE C)
endif()
)",
                                 kWriter, interface.origin, interface.name, interface.name, interface.name,
                                 interface.name, fmt::join(sources, "\"\n    \""), interface.name, interface.name);
  if (isGpu)
    text += fmt::format("# PTX, for the application to load.\nset({}_PTX\n  \"{}\")\n", interface.name,
                        fmt::join(files, "\"\n  \""));
  return text;
}

} // namespace yaglom::exporting
