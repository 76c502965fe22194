// GPU kernels on CUDA: code loaded once, scratch for each stream, host memory copied where a launch has any.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/GpuDevice.h"
#include "runtime/Programs.h"

#include "runtime/cuda/Assembler.h"
#include "runtime/cuda/Launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace yaglom::runtime {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t roundUp(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

cuda::DevicePointer addressOf(const void *data) { return reinterpret_cast<cuda::DevicePointer>(data); }

/// Scratch of one stream, in whose order its users follow each other. It only grows, and what it had before stays: a graph that
/// was captured with it may run again.
struct Scratch {
  std::mutex mutex; ///< held by a session: what it enqueues stays together
  Block current;
  std::vector<Block> former;
};

/// NVIDIA's assembler, or null where there is none.
const cuda::Assembler *assembler() {
  static const Result<std::unique_ptr<cuda::Assembler>> found = cuda::assemblerFromEnvironment();
  return found ? found->get() : nullptr;
}

/// Machine code of PTX for an architecture, by the assembler or from the cache on disk. The Error says why there is none.
Result<std::string> cubinOf(const std::string &ptx, const std::string &architecture) {
  if (!assembler())
    return Error("there is no assembler");
  static const Result<std::string> version = assembler()->version();
  if (!version)
    return version.error();
  const cache::Key key("cubin", fmt::format("{} by {}", architecture, *version), cache::digestText(ptx));
  return obtainBytes(key, [&]() -> Result<std::string> {
    Result<cuda::Assembly> assembly = assembler()->assemble(ptx, {.architecture = architecture});
    return assembly ? Result<std::string>(std::move(assembly->cubin)) : assembly.error();
  });
}

/// Throws while `stream` is being captured; `what` says what is then not possible.
void refuseCapture(const cuda::Context &context, cuda::StreamHandle stream, const std::string &what) {
  if (cuda::isCapturing(context, stream).value())
    throw Error(
        fmt::format("{} while the stream is being captured into a graph: before capturing, prepare() the kernel for "
                    "these sizes and upload() its parameters",
                    what));
}

/// A module on the device, and those of its functions that are ready.
class LoadedModule {
public:
  LoadedModule(const cuda::Context &context, const compiler::GpuModule &code, cuda::StreamHandle stream)
      : module(load(context, code, stream).value()) {}

  cuda::Function function(const compiler::GpuKernel &kernel, const cuda::Context &context, cuda::StreamHandle stream) {
    const std::lock_guard lock(mutex);
    const auto found = functions.find(kernel.name);
    if (found != functions.end())
      return found->second;
    refuseCapture(context, stream, fmt::format("kernel '{}' cannot be loaded", kernel.name));
    const auto bytes = static_cast<std::size_t>(kernel.sharedBytes);
    return functions.emplace(kernel.name, module.function(kernel.name, {.dynamicSharedBytes = bytes}).value())
        .first->second;
  }

private:
  /// A cubin if there is an assembler that makes one which the driver takes, else PTX, which the driver assembles.
  static Result<cuda::Module> load(const cuda::Context &context, const compiler::GpuModule &code,
                                   cuda::StreamHandle stream) {
    if (const Result<std::string> cubin = cubinOf(code.ptx, context.device().architecture()))
      if (auto module = cuda::Module::load(context, *cubin, stream))
        return module;
    return cuda::Module::load(context, code.ptx, stream);
  }

  const cuda::Module module;
  std::mutex mutex;
  std::map<std::string, cuda::Function> functions;
};

class CudaDevice final : public GpuDevice {
public:
  CudaDevice(cuda::Context context, std::string architecture)
      : context(std::move(context)), name(std::move(architecture)) {}

  std::unique_ptr<GpuSession> begin(const SessionOptions &options) override;

  Block allocate(std::size_t bytes, void *stream, const std::string &what) override {
    refuseCapture(context, static_cast<cuda::StreamHandle>(stream),
                  fmt::format("{} bytes for {} cannot be allocated", bytes, what));
    Result<cuda::DeviceMemory> memory = cuda::DeviceMemory::allocate(context, bytes);
    if (!memory)
      throw Error(fmt::format("{}: {}", what, memory.error().what()));
    const auto owner = std::make_shared<cuda::DeviceMemory>(std::move(*memory));
    return {owner, reinterpret_cast<char *>(owner->address()), bytes}; // NOLINT(performance-no-int-to-ptr)
  }

  int ordinal() const override { return context.device().ordinal; }
  const std::string &architecture() const override { return name; }
  int64_t workers() const override { return context.device().multiprocessors; }
  void checkPointer(std::string_view argument, const void *data) const override {
    cuda::checkDevicePointer(context, argument, data, 1).value();
  }

  cuda::Function function(const compiler::GpuKernel &kernel, cuda::StreamHandle stream) const {
    // After an Error the next call tries again.
    std::call_once(kernel.module->once, [&] {
      refuseCapture(context, stream, fmt::format("kernel '{}' cannot be loaded", kernel.name));
      kernel.module->loaded = std::make_shared<LoadedModule>(context, *kernel.module, stream);
    });
    return static_cast<LoadedModule *>(kernel.module->loaded.get())->function(kernel, context, stream);
  }

  Scratch &scratchOf(cuda::StreamHandle stream) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<Scratch> &scratch = scratches[stream];
    if (!scratch)
      scratch = std::make_unique<Scratch>();
    return *scratch;
  }

  const cuda::Context context;

private:
  const std::string name; ///< what kernels are compiled for
  std::mutex mutex;
  std::map<cuda::StreamHandle, std::unique_ptr<Scratch>> scratches;
};

class CudaSession final : public GpuSession {
public:
  CudaSession(CudaDevice &device, const SessionOptions &options)
      : device(device), stream(static_cast<cuda::StreamHandle>(options.stream)), preparing(options.prepares),
        scratch(device.scratchOf(stream)), lock(scratch.mutex) {}

  void launch(const GpuWork &work) override {
    const cuda::Function function = device.function(*work.kernel, stream);
    const std::size_t before = used;
    std::vector<int64_t> words = work.words;
    std::vector<Block> copies;
    for (const GpuPointer &pointer : work.pointers)
      words[pointer.word] = static_cast<int64_t>(addressOf(place(pointer, copies)));
    if (!preparing)
      start(function, work, words);
    std::size_t copy = 0;
    for (const GpuPointer &pointer : work.pointers)
      if (pointer.memory == GpuPointer::Memory::Host && !preparing) {
        if (pointer.written)
          download(pointer.data, copies[copy].data, pointer.bytes);
        ++copy;
      }
    if (!copies.empty())
      cuda::synchronize(device.context, stream).value(); // before the copies go
    used = before;
  }

  char *lend(std::size_t bytes) override {
    const std::size_t at = used;
    used += roundUp(bytes);
    most = std::max(most, used);
    if (preparing)
      return nullptr;
    if (used > scratch.current.bytes)
      return grow(used, at);
    return scratch.current.data + at;
  }

  void zero(char *data, std::size_t bytes) override {
    if (!preparing)
      cuda::fill(device.context, addressOf(data), 0, bytes, stream).value();
  }

  void upload(char *to, const void *from, std::size_t bytes) override {
    if (preparing || !bytes)
      return;
    refuseCapture(device.context, stream, "memory of the host cannot be copied");
    cuda::copyToDevice(device.context, addressOf(to), from, bytes, stream).value();
  }

  void download(void *to, const char *from, std::size_t bytes) override {
    if (preparing || !bytes)
      return;
    refuseCapture(device.context, stream, "memory cannot be copied to the host");
    cuda::copyToHost(device.context, to, addressOf(from), bytes, stream).value();
    cuda::synchronize(device.context, stream).value();
  }

  int64_t multiprocessors() const override { return device.context.device().multiprocessors; }
  bool prepares() const override { return preparing; }

  void finish() override {
    if (most > scratch.current.bytes)
      grow(most, 0);
  }

private:
  /// Where the kernel finds the memory of a word.
  const char *place(const GpuPointer &pointer, std::vector<Block> &copies) {
    if (pointer.memory == GpuPointer::Memory::Device)
      return pointer.data;
    if (pointer.memory == GpuPointer::Memory::Lent)
      return lend(pointer.bytes);
    if (preparing)
      return nullptr;
    const std::string what = fmt::format("argument '{}', which is in host memory,", pointer.name);
    refuseCapture(device.context, stream, what + " cannot be copied");
    copies.push_back(device.allocate(pointer.bytes, stream, what));
    upload(copies.back().data, pointer.data, pointer.bytes);
    return copies.back().data;
  }

  void start(const cuda::Function &function, const GpuWork &work, const std::vector<int64_t> &words) {
    std::vector<cuda::Parameter> parameters;
    parameters.reserve(words.size());
    for (const int64_t &word : words)
      parameters.push_back(cuda::Parameter::of(word));
    cuda::launch(function,
                 {.grid = {static_cast<uint64_t>(work.blocks)},
                  .block = {static_cast<uint64_t>(work.kernel->threads)},
                  .dynamicSharedBytes = static_cast<std::size_t>(work.kernel->sharedBytes),
                  .stream = stream},
                 parameters)
        .value();
  }

  /// Twice as much at least, so that all that was there before is no more than what there is now.
  char *grow(std::size_t bytes, std::size_t at) {
    Block more = device.allocate(std::max(bytes, 2 * scratch.current.bytes), stream, "scratch");
    if (scratch.current.data)
      scratch.former.push_back(std::move(scratch.current));
    scratch.current = std::move(more);
    return scratch.current.data + at;
  }

  CudaDevice &device;
  const cuda::StreamHandle stream;
  const bool preparing;
  Scratch &scratch;
  std::unique_lock<std::mutex> lock;
  std::size_t used = 0, most = 0;
};

std::unique_ptr<GpuSession> CudaDevice::begin(const SessionOptions &options) {
  return std::make_unique<CudaSession>(*this, options);
}

/// The highest architecture that we compile for and this GPU runs: PTX for an older one is assembled for it.
Result<std::string> architectureFor(const cuda::Device &device) {
  constexpr int kOldest = 80;
  for (int capability = device.computeCapability; capability >= kOldest; --capability)
    if (const auto known = compiler::gpuArchitecture(fmt::format("sm_{}", capability)))
      return *known;
  return Error(fmt::format("CUDA device {} ({}) is of architecture {}; kernels need sm_{} or newer", device.ordinal,
                           device.name, device.architecture(), kOldest));
}

Result<std::shared_ptr<GpuDevice>> openDevice(int ordinal) {
  const Result<cuda::DriverPointer> driver = cuda::Driver::shared();
  if (!driver)
    return driver.error();
  Result<cuda::Context> context = cuda::Context::retain(*driver, ordinal);
  if (!context)
    return context.error();
  const Result<std::string> architecture = architectureFor(context->device());
  if (!architecture)
    return architecture.error();
  return std::shared_ptr<GpuDevice>(std::make_shared<CudaDevice>(std::move(*context), *architecture));
}

} // namespace

Result<std::shared_ptr<GpuDevice>> cudaDevice(int ordinal) {
  // Never destroyed: when the process ends the driver may be gone before us.
  static auto *const mutex = new std::mutex;
  static auto *const devices = new std::map<int, std::shared_ptr<GpuDevice>>;
  const std::lock_guard lock(*mutex);
  std::shared_ptr<GpuDevice> &device = (*devices)[ordinal];
  if (!device) {
    Result<std::shared_ptr<GpuDevice>> opened = openDevice(ordinal);
    if (!opened)
      return opened.error();
    device = *opened;
  }
  return device;
}

} // namespace yaglom::runtime
