// exportAttention(): the files of an export, in memory.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/export.h"

#include "runtime/SumKernels.h"
#include "runtime/export/Interface.h"
#include "support/Safetensors.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

using namespace exporting;

constexpr int64_t kMostHeads = 65536; ///< whose initial parameters are written

std::string originOf(const std::string &attention, const CompileOptions &options, const Instance &instance) {
  std::string text = fmt::format("attention {}, {}", attention, toText(options.dtype));
  for (const auto &[name, value] : instance.dims)
    text += fmt::format(", {} = {}", name, value);
  return text;
}

/// Of a machine's kernel: draws are made by compiled code. Without draws all targets start from the same numbers.
Result<Parameters> initialParameters(const Spec &spec, const std::string &attention, CompileOptions options,
                                     bool hasDraws, const ExportOptions &how) {
  options.target = hasDraws ? Target::host() : Target::reference();
  options.dtype = parameterType(options.dtype);
  const Result<Kernel> kernel = compile(spec, attention, options);
  if (!kernel)
    return kernel.error();
  try {
    return kernel->initialParameters(how.heads, how.seed);
  } catch (const Error &error) {
    return error;
  }
}

/// Comments of PTX begin as those of C++.
std::string withMark(const std::string &ptx, const Interface &interface) {
  return fmt::format("// {}: {}\n{}", kWriter, interface.origin, ptx);
}

std::vector<ExportedFile> codeFiles(const Interface &interface, const std::vector<Version> &versions) {
  std::vector<ExportedFile> files;
  for (const Version &version : versions) {
    const auto add = [&](const char *pass, const std::string &code) {
      files.push_back({symbolPrefix(interface.name, version.target) + pass + (version.isGpu() ? ".ptx" : ".o"),
                       version.isGpu() ? withMark(code, interface) : code});
    };
    add("forward", version.forward.code.bytes);
    if (version.backward)
      add("backward", version.backward->code.bytes);
    if (version.backward && version.isGpu() && !interface.heads.empty())
      files.push_back({interface.name + "_sums.ptx", withMark(runtime::sumKernelsPtx(), interface)});
  }
  return files;
}

} // namespace

bool isExported(const std::string &bytes) { return bytes.find(kWriter) != std::string::npos; }

Result<std::vector<ExportedFile>> exportAttention(const Spec &spec, const std::string &attention,
                                                  const CompileOptions &options, const ExportOptions &how) {
  const std::string name = how.name.empty() ? attention : how.name;
  if (!isIdentifier(name))
    return Error(fmt::format("the name of an export is one of a C function, found '{}'", name));
  if (how.heads < 1 || how.heads > kMostHeads)
    return Error(fmt::format("heads must be from 1 to {}, found {}", kMostHeads, how.heads));
  Result<Instance> instance = runtime::bindOptions(spec, attention, options);
  if (!instance)
    return instance.error();
  const bool hasDraws = !instance->draws.empty();
  Result<std::vector<Version>> versions = buildVersions(*instance, options, how, name);
  if (!versions)
    return versions.error();
  const auto compiled = runtime::makeCompiled(spec, std::move(*instance), options, nullptr);
  if (!compiled)
    return compiled.error();
  Interface interface = describe(**compiled, name);
  interface.origin = originOf(attention, options, (*compiled)->instance);
  const Result<Parameters> parameters = initialParameters(spec, attention, options, hasDraws, how);
  if (!parameters)
    return parameters.error();
  const Result<std::string> source = writeSource(interface, *versions);
  if (!source)
    return source.error();
  const Result<std::string> tensors =
      safetensors::serialize(*parameters, {{"writer", kWriter}, {"origin", interface.origin}});
  if (!tensors)
    return tensors.error();
  std::vector<ExportedFile> files = codeFiles(interface, *versions);
  std::vector<std::string> code;
  code.reserve(files.size());
  for (const ExportedFile &file : files)
    code.push_back(file.name);
  files.push_back({name + ".h", writeHeader(interface, *versions)});
  files.push_back({name + ".c", *source});
  files.push_back({name + "Config.cmake", writeCMake(interface, code, versions->front().isGpu())});
  files.push_back({name + ".safetensors", *tensors});
  return files;
}

} // namespace yaglom
