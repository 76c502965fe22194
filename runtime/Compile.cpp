// compile() and emit(): binding dimensions, the cache, and the compiler behind them.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Cache.h"
#include "runtime/GpuDevice.h"
#include "runtime/Programs.h"

#include <fmt/format.h>

#include <chrono>

namespace yaglom {
namespace {

constexpr const char *kTargets[] = {"host", "reference", "x86-64-v3", "x86-64-v4"};

/// Never destroyed: the machine code of kernels must outlive everything that still launches while the process exits.
runtime::Cache &cache() {
  static runtime::Cache *const instance = new runtime::Cache;
  return *instance;
}

Result<DimValues> bindDims(const CompileOptions &options) {
  for (const char *name : {"d", "e"})
    if (options.dims.contains(name))
      return Error(fmt::format("dimension '{}' is bound by {}", name, *name == 'd' ? "headDim" : "valueDim"));
  DimValues values = options.dims;
  values["d"] = options.headDim;
  values["e"] = options.valueDim ? options.valueDim : options.headDim;
  return values;
}

/// Code for a GPU of this machine is code for its architecture.
Result<CompileOptions> forArchitecture(CompileOptions options, const std::shared_ptr<runtime::GpuDevice> &device) {
  if (!device)
    return options;
  Result<Target> target = Target::parse(device->architecture());
  if (!target)
    return target.error();
  options.target = *target;
  return options;
}

runtime::Cache::Value compileNow(const Spec &spec, Instance instance, const CompileOptions &options) {
  const Result<std::shared_ptr<runtime::GpuDevice>> device = runtime::GpuDevice::named(options.target.name());
  if (!device)
    return device.error();
  const Result<CompileOptions> lowered = forArchitecture(options, *device);
  if (!lowered)
    return lowered.error();
  std::shared_ptr<const compiler::Program> program;
  if (options.target.name() != Target::reference().name()) {
    const Result<std::shared_ptr<const compiler::Program>> obtained = runtime::obtain<compiler::Program>(
        runtime::programKey("forward", spec, instance, *lowered), [&] { return compiler::build(instance, *lowered); });
    if (!obtained)
      return obtained.error();
    program = *obtained;
  }
  return runtime::makeCompiled(spec, std::move(instance), *lowered, std::move(program), *device);
}

/// Fields that the target does not read are mistakes.
Result<void> checkSchedule(const CompileOptions &options) {
  const Schedule &schedule = options.schedule;
  const std::string &target = options.target.name();
  if (Result<void> checked = schedule.check(); !checked || target == Target::reference().name())
    return checked;
  const bool isGpu = compiler::gpuArchitecture(target) || runtime::cudaOrdinal(target);
  Schedule other = schedule; // what is left is of the other kind of machine
  other.chunk = other.granule = 0;
  if (isGpu)
    other.warps = other.stages = 0;
  else
    other = {.warps = other.warps, .stages = other.stages};
  if (other.isDefault())
    return {};
  return Error(fmt::format("schedule: a kernel for '{}' has chunk, granule, {}, found '{}'", target,
                           isGpu ? "warps and stages" : "tile, pointwise, unroll, prefetch and segments",
                           other.toText()));
}

} // namespace

Result<Instance> runtime::bindOptions(const Spec &spec, const std::string &attention, const CompileOptions &options) {
  if (Result<void> checked = checkSchedule(options); !checked)
    return checked.error();
  Result<DimValues> values = bindDims(options);
  if (!values)
    return values.error();
  return instantiate(spec.file(), attention, *values);
}

Target::Target(std::string name) : text(std::move(name)) {}
Target Target::host() { return Target("host"); }
Target Target::reference() { return Target("reference"); }

bool Target::isRunnable() const {
  return text == "host" || text == "reference" || text == "emulated" || text.starts_with("emulated:") ||
         runtime::cudaOrdinal(text);
}

Result<Target> Target::parse(const std::string &name) {
  for (const char *known : kTargets)
    if (name == known)
      return Target(name);
  if (compiler::gpuArchitecture(name) || runtime::cudaOrdinal(name))
    return Target(name);
  return Error(
      fmt::format("unknown target '{}'; there are host, reference, x86-64-v3, x86-64-v4, cuda, cuda:1, emulated, "
                  "emulated:sm_80 and sm_80 (or sm_86, sm_89, sm_90, sm_100, sm_120)",
                  name));
}

namespace {

Result<runtime::Cache::Answer> compileOnce(const Spec &spec, const std::string &attention,
                                           const CompileOptions &options) {
  const std::string &target = options.target.name();
  if (!options.target.isRunnable())
    return Error(fmt::format(
        "a kernel for '{}' can be emitted but not run; compile for host, cuda, emulated or reference", target));
  if (target == "host" && sizeOf(options.dtype) < sizeof(float))
    return Error(fmt::format("kernels of the host compute with f32 or f64, found {}", toText(options.dtype)));
  Result<Instance> instance = runtime::bindOptions(spec, attention, options);
  if (!instance)
    return instance.error();

  const std::string key = fmt::format("{}\nsegments: {}", runtime::programKey("forward", spec, *instance, options).text,
                                      options.schedule.segments);
  runtime::Cache::Answer answer = cache().get(key, [&] { return compileNow(spec, *instance, options); });
  if (!answer.value)
    return answer.value.error();
  return answer;
}

} // namespace

Result<std::shared_ptr<const runtime::Compiled>> runtime::compileShared(const Spec &spec, const std::string &attention,
                                                                        const CompileOptions &options) {
  Result<Cache::Answer> answer = compileOnce(spec, attention, options);
  return answer ? answer->value : answer.error();
}

Result<Kernel> compile(const Spec &spec, const std::string &attention, const CompileOptions &options) {
  const auto start = std::chrono::steady_clock::now();
  const Result<runtime::Cache::Answer> answer = compileOnce(spec, attention, options);
  if (!answer)
    return answer.error();
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  return Kernel(
      std::make_shared<const Kernel::Impl>(Kernel::Impl{*answer->value, answer->wasPresent ? 0.0 : elapsed.count()}));
}

Result<std::string> emit(const Spec &spec, const std::string &attention, Stage stage, const CompileOptions &options,
                         Pass pass, bool locations) {
  Result<Instance> instance = runtime::bindOptions(spec, attention, options);
  if (!instance)
    return instance.error();
  if (stage == Stage::Ast)
    return spec.print();
  if (options.target.name() == Target::reference().name())
    return Error("the reference interprets the tree: it has the stage 'ast' alone");
  Result<std::shared_ptr<runtime::GpuDevice>> device = std::shared_ptr<runtime::GpuDevice>();
  if (runtime::cudaOrdinal(options.target.name()))
    device = runtime::GpuDevice::named(options.target.name());
  const Result<CompileOptions> lowered = device ? forArchitecture(options, *device) : device.error();
  if (!lowered)
    return lowered.error();
  return compiler::emitText(*instance, stage, *lowered, pass, locations);
}

} // namespace yaglom
