// The seam between what is launched and which device runs it: the emulator and CUDA implement this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "yaglom/tensor.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom::runtime {

/// Memory of a device or of the host, freed with its last holder.
struct Block {
  std::shared_ptr<void> owner = {};
  char *data = nullptr;
  std::size_t bytes = 0;
};

/// A word of a kernel that is an address.
struct GpuPointer {
  enum class Memory {
    Device, ///< at `data`
    Host,   ///< at `data`; copied to the device for the launch where the host's memory is not the device's
    Lent,   ///< holds nothing before the launch, and nothing that matters afterwards
  };
  std::size_t word;
  std::string_view name; ///< of the argument
  Memory memory;
  char *data;
  std::size_t bytes;
  bool written;
};

/// One launch: as many blocks in x of a kernel, with these words for parameters.
struct GpuWork {
  const compiler::GpuKernel *kernel = nullptr;
  int64_t blocks = 0;
  std::vector<int64_t> words;
  std::vector<GpuPointer> pointers; ///< words that are 0 until the device sets them
};

/// One call of the user: its launches run in order, each after the last. Everything throws Error.
class GpuSession {
public:
  virtual ~GpuSession() = default;

  /// Enqueues `work`; with host memory among its pointers, also waits for it.
  virtual void launch(const GpuWork &work) = 0;
  /// Memory of the device for the rest of the session, 256-byte aligned, that holds nothing.
  virtual char *lend(std::size_t bytes) = 0;
  virtual void zero(char *data, std::size_t bytes) = 0;
  /// Copies from the host, which may change `from` afterwards.
  virtual void upload(char *to, const void *from, std::size_t bytes) = 0;
  /// Copies to the host, and waits.
  virtual void download(void *to, const char *from, std::size_t bytes) = 0;
  /// How many blocks of our kernels run at a time.
  virtual int64_t multiprocessors() const = 0;
  /// True when nothing is run: launches only load what they need and count what they would be lent.
  virtual bool prepares() const = 0;
  /// The end of the call; a session that prepares now makes room. Not called after an Error.
  virtual void finish() = 0;
};

/// How a session runs.
struct SessionOptions {
  int threads = 0;        ///< of the emulator
  void *stream = nullptr; ///< CUstream
  bool prepares = false;
};

/// A device that runs GPU kernels. May be used from several threads at a time.
class GpuDevice {
public:
  virtual ~GpuDevice() = default;

  /// The device of a target: "emulated", "emulated:sm_90", "cuda", "cuda:1"; null for those that are no GPU. The Error says
  /// why there is none of that name.
  static Result<std::shared_ptr<GpuDevice>> named(const std::string &target);

  virtual std::unique_ptr<GpuSession> begin(const SessionOptions &options) = 0;
  /// Memory for any length of time, 256-byte aligned. Throws Error, also while `stream` is being captured; `what` says what it
  /// is for.
  virtual Block allocate(std::size_t bytes, void *stream, const std::string &what) = 0;
  /// Its CUDA ordinal, or TensorRef::kHost where its memory is the host's.
  virtual int ordinal() const = 0;
  /// The target that kernels for it are compiled for: "sm_90".
  virtual const std::string &architecture() const = 0;
  /// How many blocks it runs side by side: its multiprocessors, or the cores that emulate them.
  virtual int64_t workers() const = 0;
  /// Throws an Error that names the argument where the system knows that `data` is not memory of this device.
  virtual void checkPointer(std::string_view argument, const void *data) const = 0;

  /// Kernels of the runtime's own: SumKernels.h.
  const std::shared_ptr<const compiler::GpuModule> &sums() const { return sumModule; }

protected:
  GpuDevice();

private:
  std::shared_ptr<const compiler::GpuModule> sumModule;
};

/// The GPU that the target names: 0 of "cuda", 1 of "cuda:1"; nothing for other targets.
std::optional<int> cudaOrdinal(const std::string &target);

/// The device with this ordinal, or the Error of there being none. One object for each, until the process ends.
Result<std::shared_ptr<GpuDevice>> cudaDevice(int ordinal);
/// The emulator for this architecture.
std::shared_ptr<GpuDevice> emulatedDevice(const std::string &architecture);

/// A session for copies alone; where `device` is null they are copies on the host.
std::unique_ptr<GpuSession> beginCopies(const std::shared_ptr<GpuDevice> &device, void *stream);
/// The memory that `device` allocates; the host's, 256-byte aligned, where it is null.
Block allocate(const std::shared_ptr<GpuDevice> &device, std::size_t bytes, void *stream, const std::string &what);

} // namespace yaglom::runtime
