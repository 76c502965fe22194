// Loads code, and does all that must be done before a function's first launch.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Module.h"

#include "runtime/cuda/Ptx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>

namespace yaglom::cuda {

namespace {

constexpr size_t kLogBytes = size_t(1) << 16;

/// The logs of the driver's assembler, and the options that ask for them.
class Logs {
public:
  Logs() {
    info.resize(kLogBytes);
    error.resize(kLogBytes);
    values = {info.data(), number(info.size()), error.data(), number(error.size()), number(1)};
  }

  int *options() { return ids.data(); }
  void **optionValues() { return values.data(); }
  static constexpr unsigned count() { return 5; }

  std::string infoText() const { return text(info); }
  std::string all() const {
    const std::string errors = text(error);
    return errors + (errors.empty() || text(info).empty() ? "" : "\n") + text(info);
  }

private:
  // The driver takes numbers in the pointer itself.
  static void *number(size_t value) { return reinterpret_cast<void *>(value); } // NOLINT(performance-no-int-to-ptr)
  static std::string text(const std::string &log) {
    std::string result(log.c_str(), strnlen(log.data(), log.size()));
    while (!result.empty() && (result.back() == '\n' || result.back() == ' '))
      result.pop_back();
    return result;
  }

  std::string info;
  std::string error;
  std::array<int, 5> ids = {abi::kJitInfoLogBuffer, abi::kJitInfoLogBufferBytes, abi::kJitErrorLogBuffer,
                            abi::kJitErrorLogBufferBytes, abi::kJitLogVerbose};
  std::array<void *, 5> values;
};

/// Code for a GPU rather than text: a cubin or a fatbinary.
bool isBinary(std::string_view image) {
  return image.starts_with("\x7f"
                           "ELF") ||
         image.starts_with("\x50\xed\x55\xba");
}

Result<void> checkNotCapturing(const Context &context, StreamHandle stream) {
  const Result<bool> capturing = isCapturing(context, stream);
  if (!capturing)
    return capturing.error();
  if (*capturing)
    return Error(
        "nothing can be loaded while the stream is being captured into a graph: prepare() the kernel before capturing");
  return {};
}

} // namespace

struct Module::State {
  Context context;
  abi::Module module = nullptr;
  std::string log;

  explicit State(Context context) : context(std::move(context)) {}
  State(const State &) = delete;
  State &operator=(const State &) = delete;
  ~State() {
    if (!module)
      return;
    if (const Result<ContextScope> scope = ContextScope::enter(context))
      context.driver()->api.cuModuleUnload(module);
  }
};

struct Function::State {
  Module module; ///< keeps the code
  Context context;
  std::string name;
  abi::Function function = nullptr;
  FunctionAttributes attributes;
  size_t dynamicSharedBytes = 0;
  std::optional<std::vector<size_t>> parameterBytes;
};

Result<Module> Module::load(const Context &context, std::string_view image, StreamHandle stream) {
  const Driver &driver = *context.driver();
  if (auto fits = checkNotCapturing(context, stream); !fits)
    return fits.error();
  const bool binary = isBinary(image);
  std::string text; // the driver reads PTX up to its NUL
  if (!binary) {
    const Result<PtxHeader> header = readPtxHeader(image);
    if (!header)
      return header.error();
    if (auto fits = checkPtx(*header, driver.version(), context.device()); !fits)
      return fits.error();
    text = image;
  }

  const Result<ContextScope> scope = ContextScope::enter(context);
  if (!scope)
    return scope.error();
  Logs logs;
  const auto state = std::make_shared<State>(context);
  const abi::Status status = driver.api.cuModuleLoadDataEx(&state->module, binary ? image.data() : text.c_str(),
                                                           Logs::count(), logs.options(), logs.optionValues());
  if (status != abi::kSuccess) {
    state->module = nullptr;
    const Error error = driver.error(status, "cuModuleLoadDataEx", binary ? "loading a cubin" : "loading PTX");
    const std::string log = logs.all();
    return log.empty() ? error : Error(fmt::format("{}\n{}", error.what(), log));
  }
  state->log = logs.infoText();
  return Module(state);
}

const std::string &Module::log() const { return state->log; }

namespace {

Result<FunctionAttributes> readAttributes(const Driver &driver, abi::Function function, const std::string &subject) {
  FunctionAttributes attributes;
  const std::pair<int *, abi::FunctionAttribute> all[] = {
      {&attributes.registers, abi::kFunctionRegisters},
      {&attributes.localBytes, abi::kFunctionLocalBytes},
      {&attributes.sharedBytes, abi::kFunctionSharedBytes},
      {&attributes.constantBytes, abi::kFunctionConstantBytes},
      {&attributes.maxThreadsPerBlock, abi::kFunctionMaxThreadsPerBlock},
      {&attributes.ptxVersion, abi::kFunctionPtxVersion},
      {&attributes.binaryVersion, abi::kFunctionBinaryVersion},
  };
  for (const auto &[value, attribute] : all)
    if (auto done =
            driver.check(driver.api.cuFuncGetAttribute(value, attribute, function), "cuFuncGetAttribute", subject);
        !done)
      return done.error();
  return attributes;
}

/// Grants the function `bytes` of dynamic shared memory, where the GPU has them.
Result<void> grantShared(const Context &context, abi::Function function, int ownBytes, size_t bytes,
                         const std::string &subject) {
  const Device &device = context.device();
  const size_t total = static_cast<size_t>(ownBytes) + bytes;
  const auto most = static_cast<size_t>(std::max(device.sharedBytesPerBlockOptIn, device.sharedBytesPerBlock));
  if (bytes > most || total > most)
    return Error(
        fmt::format("{}: a block needs {} bytes of shared memory ({} static, {} dynamic); CUDA device {} ({}, {}) has "
                    "at most {}: use a smaller tile",
                    subject, total, ownBytes, bytes, device.ordinal, device.name, device.architecture(), most));
  if (total <= static_cast<size_t>(device.sharedBytesPerBlock))
    return {};
  const Driver &driver = *context.driver();
  return driver.check(
      driver.api.cuFuncSetAttribute(function, abi::kFunctionMaxDynamicSharedBytes, static_cast<int>(bytes)),
      "cuFuncSetAttribute", fmt::format("{}: {} bytes of dynamic shared memory", subject, bytes));
}

/// The sizes of the function's parameters, where the driver can tell: from CUDA 12.4 on.
std::optional<std::vector<size_t>> askParameterBytes(const Driver &driver, abi::Function function) {
  if (!driver.api.cuFuncGetParamInfo)
    return std::nullopt;
  std::vector<size_t> sizes;
  size_t offset = 0;
  size_t bytes = 0;
  abi::Status status;
  while ((status = driver.api.cuFuncGetParamInfo(function, sizes.size(), &offset, &bytes)) == abi::kSuccess)
    sizes.push_back(bytes);
  if (status != abi::kInvalidValue) // what it answers after the last one
    return std::nullopt;
  return sizes;
}

} // namespace

Result<Function> Module::function(const std::string &name, const FunctionOptions &options) const {
  const Context &context = state->context;
  const Driver &driver = *context.driver();
  const std::string subject = fmt::format("kernel '{}'", name);
  const Result<ContextScope> scope = ContextScope::enter(context);
  if (!scope)
    return scope.error();

  abi::Function handle = nullptr;
  const abi::Status status = driver.api.cuModuleGetFunction(&handle, state->module, name.c_str());
  if (status != abi::kSuccess)
    return driver.error(status, "cuModuleGetFunction", subject);
  // With lazy loading code would be loaded at the first launch, which may be captured. Older drivers load it when asked
  // for its attributes.
  if (driver.api.cuFuncLoad)
    if (auto done = driver.check(driver.api.cuFuncLoad(handle), "cuFuncLoad", subject); !done)
      return done.error();
  Result<FunctionAttributes> attributes = readAttributes(driver, handle, subject);
  if (!attributes)
    return attributes.error();
  if (auto done = grantShared(context, handle, attributes->sharedBytes, options.dynamicSharedBytes, subject); !done)
    return done.error();

  std::optional<std::vector<size_t>> parameters = askParameterBytes(driver, handle);
  if (parameters && options.parameterBytes && *parameters != *options.parameterBytes)
    return Error(fmt::format("{}: expected parameters of {} bytes, the loaded code has {}", subject,
                             *options.parameterBytes, *parameters));
  if (!parameters)
    parameters = options.parameterBytes;
  return Function(std::make_shared<const Function::State>(
      Function::State{*this, context, name, handle, *attributes, options.dynamicSharedBytes, std::move(parameters)}));
}

const std::string &Function::name() const { return state->name; }
const FunctionAttributes &Function::attributes() const { return state->attributes; }
const Context &Function::context() const { return state->context; }
size_t Function::dynamicSharedBytes() const { return state->dynamicSharedBytes; }
const std::optional<std::vector<size_t>> &Function::parameterBytes() const { return state->parameterBytes; }
abi::Function Function::handle() const { return state->function; }

Result<Function> prepare(const Context &context, std::string_view image, const std::string &name,
                         const FunctionOptions &options, StreamHandle stream) {
  const Result<Module> module = Module::load(context, image, stream);
  if (!module)
    return Error(fmt::format("kernel '{}': {}", name, module.error().what()));
  return module->function(name, options);
}

} // namespace yaglom::cuda
