// GPU kernels on the emulator: device memory is the host's, and each pointer of a launch is a buffer that is checked.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/EmulatedDevice.h"

#include "runtime/GpuDevice.h"
#include "runtime/Pool.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>

namespace yaglom::runtime {
namespace {

thread_local EmulatorReports *observer = nullptr;

class EmulatedSession final : public GpuSession {
public:
  explicit EmulatedSession(const SessionOptions &options) : options(options) {}

  /// An Error when the emulator finds a mistake of the kernel, which is a bug of ours.
  void launch(const GpuWork &work) override {
    if (options.prepares)
      return;
    const compiler::GpuKernel &kernel = *work.kernel;
    emulator::Launch launch{kernel.name,
                            {static_cast<uint32_t>(work.blocks), 1, 1},
                            {static_cast<uint32_t>(kernel.threads), 1, 1},
                            static_cast<uint64_t>(kernel.sharedBytes),
                            {work.words.begin(), work.words.end()}};
    std::vector<emulator::Buffer> buffers;
    std::vector<Block> lent;
    for (const GpuPointer &pointer : work.pointers) {
      const bool isLent = pointer.memory == GpuPointer::Memory::Lent;
      if (isLent)
        lent.push_back(allocate(nullptr, pointer.bytes, nullptr, ""));
      std::string name = fmt::format("{}: {}", buffers.size(), pointer.name); // names may repeat
      launch.arguments[pointer.word] = emulator::Pointer{name, 0};
      buffers.push_back({std::move(name), isLent ? lent.back().data : pointer.data, pointer.bytes,
                         pointer.written || isLent, !isLent});
    }
    run(work, launch, buffers);
  }

  char *lend(std::size_t bytes) override {
    if (options.prepares)
      return nullptr;
    blocks.push_back(allocate(nullptr, bytes, nullptr, ""));
    return blocks.back().data;
  }
  void zero(char *data, std::size_t bytes) override {
    if (!options.prepares && bytes)
      std::memset(data, 0, bytes);
  }
  void upload(char *to, const void *from, std::size_t bytes) override {
    if (!options.prepares && bytes)
      std::memcpy(to, from, bytes);
  }
  void download(void *to, const char *from, std::size_t bytes) override {
    upload(static_cast<char *>(to), from, bytes);
  }
  int64_t multiprocessors() const override {
    return observer ? observer->multiprocessors : EmulatorReports::kMultiprocessors;
  }
  bool prepares() const override { return options.prepares; }
  void finish() override {}

private:
  void run(const GpuWork &work, const emulator::Launch &launch, const std::vector<emulator::Buffer> &buffers) {
    const compiler::GpuKernel &kernel = *work.kernel;
    std::call_once(kernel.module->once, [&] {
      kernel.module->loaded = std::make_shared<Result<emulator::Module>>(emulator::Module::parse(kernel.module->ptx));
    });
    const auto &module = *static_cast<const Result<emulator::Module> *>(kernel.module->loaded.get());
    if (!module)
      throw Error(fmt::format("internal error: the emulator refuses our PTX: {}", module.error().what()));
    emulator::Options settings{.threads = options.threads};
    if (observer)
      settings.instructionBudget = observer->instructionBudget;
    const Result<emulator::Report> report = emulator::run(*module, launch, buffers, settings);
    if (!report)
      throw Error(fmt::format("internal error: launching '{}': {}", kernel.name, report.error().what()));
    if (observer)
      observer->launches.push_back({kernel.name, work.blocks, *report});
    if (!report->clean())
      throw Error(
          fmt::format("internal error: the emulator found mistakes in '{}':\n{}", kernel.name, report->findingsText()));
  }

  const SessionOptions options;
  std::vector<Block> blocks;
};

class EmulatedDevice final : public GpuDevice {
public:
  explicit EmulatedDevice(std::string name) : name(std::move(name)) {}

  std::unique_ptr<GpuSession> begin(const SessionOptions &options) override {
    return std::make_unique<EmulatedSession>(options);
  }
  Block allocate(std::size_t bytes, void *stream, const std::string &what) override {
    return runtime::allocate(nullptr, bytes, stream, what);
  }
  int ordinal() const override { return TensorRef::kHost; }
  const std::string &architecture() const override { return name; }
  int64_t workers() const override { return defaultThreads(); }
  void checkPointer(std::string_view, const void *) const override {}

private:
  const std::string name;
};

} // namespace

EmulatorReports::EmulatorReports() : outer(observer) { observer = this; }
EmulatorReports::~EmulatorReports() { observer = outer; }

std::shared_ptr<GpuDevice> emulatedDevice(const std::string &architecture) {
  return std::make_shared<EmulatedDevice>(architecture);
}

} // namespace yaglom::runtime
