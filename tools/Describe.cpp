// yaglom describe: the tensors of an attention with their shapes and initial values.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Commands.h"
#include "tools/Json.h"

#include "runtime/Compiled.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

namespace yaglom::tools {
namespace {

const char *toText(TensorRole role) {
  switch (role) {
  case TensorRole::Input:
    return "input";
  case TensorRole::Parameter:
    return "parameter";
  case TensorRole::Draw:
    return "draw";
  case TensorRole::Noise:
    return "noise";
  case TensorRole::Output:
    return "output";
  case TensorRole::State:
    return "state";
  }
  return "";
}

std::string axesToJson(const std::vector<std::string> &axes) {
  std::string text;
  for (const std::string &axis : axes) {
    const bool isNumber = axis.find_first_not_of("0123456789") == std::string::npos;
    text += (text.empty() ? "" : ", ") + (isNumber ? axis : toJson(axis));
  }
  return "[" + text + "]";
}

void printJson(const std::string &attention, const DimValues &dims, const Kernel &kernel) {
  JsonObject bound;
  for (const auto &[name, value] : dims)
    bound.add(name, value);
  std::vector<std::string> tensors;
  for (const TensorInfo &info : kernel.tensors()) {
    JsonObject tensor;
    tensor.add("name", info.name).add("role", toText(info.role)).addRaw("axes", axesToJson(info.axes));
    if (!info.initial.empty())
      tensor.add("initial", info.initial);
    tensors.push_back(tensor.text());
  }
  std::vector<std::string> losses;
  for (const std::string &name : kernel.losses())
    losses.push_back(toJson(name));
  const std::string text = JsonObject()
                               .add("attention", attention)
                               .addRaw("dims", bound.text())
                               .addRaw("tensors", fmt::format("[{}]", fmt::join(tensors, ", ")))
                               .addRaw("losses", fmt::format("[{}]", fmt::join(losses, ", ")))
                               .text();
  fmt::print("{}\n", text);
}

void printTable(const std::string &attention, const DimValues &dims, const Kernel &kernel) {
  std::vector<std::string> bound;
  for (const auto &[name, value] : dims)
    bound.push_back(fmt::format("{} = {}", name, value));
  fmt::print("attention {}: {}\n", attention, fmt::join(bound, ", "));
  std::size_t nameWidth = 0;
  for (const TensorInfo &info : kernel.tensors())
    nameWidth = std::max(nameWidth, info.name.size());
  for (const TensorInfo &info : kernel.tensors()) {
    const std::string shape = fmt::format("[{}]", fmt::join(info.axes, ", "));
    std::string line =
        fmt::format("{:<10} {:<{}}  {:<18} {}", toText(info.role), info.name, nameWidth, shape, info.initial);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
  for (const std::string &name : kernel.losses())
    fmt::print("{:<10} loss.{}\n", "loss", name);
}

} // namespace

int describe(const DescribeOptions &options) {
  const Spec spec = loadSpec(options.file);
  CompileOptions compileOptions = options.compile;
  compileOptions.target = Target::reference(); // the tensors are the same on every target, and this compiles nothing
  const Kernel kernel = compile(spec, options.attention, compileOptions).value();
  const DimValues dims = runtime::bindOptions(spec, options.attention, options.compile).value().dims;
  (options.json ? printJson : printTable)(options.attention, dims, kernel);
  return kSuccess;
}

} // namespace yaglom::tools
