// Compiles an attention for every target of an export.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/Machine.h"
#include "runtime/export/Interface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace yaglom::exporting {
namespace {

using compiler::cpu::Machine;

/// Features that code generation may use, as LLVM, GCC and clang all spell them. All processors with AVX2 and BMI2 have
/// MOVBE, F16C and LZCNT too, which older compilers cannot ask for.
constexpr const char *kFeatures[] = {"popcnt",     "sse4.2",   "avx",        "avx2",       "fma",
                                     "bmi",        "bmi2",     "avx512f",    "avx512cd",   "avx512bw",
                                     "avx512dq",   "avx512vl", "avx512ifma", "avx512vbmi", "avx512vbmi2",
                                     "avx512vnni", "gfni",     "fma4",       "xop"};
constexpr std::size_t kOfLevel3 = 7, kOfLevel4 = 12; ///< how many of them the generic levels have

bool has(const Machine &machine, const std::string &feature) {
  return ("," + machine.features + ",").find(",+" + feature + ",") != std::string::npos;
}

Result<Version> buildVersion(const Instance &instance, CompileOptions options, const Target &target, bool backward,
                             const std::string &name) {
  options.target = target;
  const compiler::Linkage linkage{symbolPrefix(name, target), kWriter};
  Result<compiler::Program> forward = compiler::build(instance, options, &linkage);
  if (!forward)
    return forward.error();
  Version version{target, std::move(*forward), std::nullopt};
  if (!backward)
    return version;
  Result<compiler::BackwardProgram> gradient =
      compiler::buildBackward(instance, options, compiler::Keeps::Nothing, &linkage);
  if (!gradient)
    return gradient.error();
  version.backward = std::move(*gradient);
  return version;
}

/// Wider vectors first, and of two the code that knows its machine.
bool isBetter(const Version &a, const Version &b) {
  const auto rank = [](const Version &version) {
    const std::string &name = version.target.name();
    return std::pair(Machine::named(name).value().vectorBytes, name == "host");
  };
  return rank(a) > rank(b);
}

Result<void> checkTargets(const std::vector<Target> &targets, DType dtype) {
  if (targets.empty())
    return Error("an export needs a target: host, x86-64-v3, x86-64-v4 or a GPU architecture such as sm_80");
  bool isGpu = false;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string &name = targets[i].name();
    const auto architecture = compiler::gpuArchitecture(name);
    if (!(architecture == name) && !Machine::named(name))
      return Error(fmt::format("no code can be exported for '{}'; expected host, x86-64-v3, x86-64-v4 or a GPU "
                               "architecture such as sm_80",
                               name));
    isGpu |= architecture.has_value();
    for (std::size_t j = 0; j < i; ++j)
      if (targets[j].name() == name)
        return Error(fmt::format("target '{}' is given twice", name));
  }
  if (isGpu && targets.size() > 1)
    return Error("an export for a GPU has one target: later architectures run its PTX too; export processors' code "
                 "under another name");
  if (!isGpu && sizeOf(dtype) < sizeof(float))
    return Error(fmt::format("processors compute with f32 or f64, found {}", toText(dtype)));
  return {};
}

} // namespace

std::string supportCondition(const Target &target) {
  const Machine machine = Machine::named(target.name()).value();
  std::vector<std::string> terms;
  for (std::size_t i = 0; i < std::size(kFeatures); ++i)
    if (target.name() == "host" ? has(machine, kFeatures[i])
                                : i < (target.name() == "x86-64-v4" ? kOfLevel4 : kOfLevel3))
      terms.push_back(fmt::format("__builtin_cpu_supports(\"{}\")", kFeatures[i]));
  return terms.empty() ? "1" : fmt::format("{}", fmt::join(terms, " && "));
}

Result<std::vector<Version>> buildVersions(const Instance &instance, const CompileOptions &options,
                                           const ExportOptions &how, const std::string &name) {
  if (Result<void> checked = checkTargets(how.targets, options.dtype); !checked)
    return checked.error();
  std::vector<Version> versions;
  for (const Target &target : how.targets) {
    Result<Version> version = buildVersion(instance, options, target, how.backward, name);
    if (!version)
      return version.error();
    versions.push_back(std::move(*version));
  }
  if (versions.size() > 1)
    std::sort(versions.begin(), versions.end(), isBetter);
  return versions;
}

} // namespace yaglom::exporting
