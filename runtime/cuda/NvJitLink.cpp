// libnvJitLink as an assembler: one PTX text in, one cubin out.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Assembler.h"

#include <fmt/format.h>

#include <dlfcn.h>

namespace yaglom::cuda {

namespace {

using Handle = struct OpaqueLinker *;
using Status = int;
constexpr Status kDone = 0;
constexpr int kInputPtx = 2;

/// The functions of the library, under the names that all its versions export.
struct Functions {
  Status (*create)(Handle *, uint32_t, const char **) = nullptr;
  Status (*destroy)(Handle *) = nullptr;
  Status (*addData)(Handle, int, const void *, size_t, const char *) = nullptr;
  Status (*complete)(Handle) = nullptr;
  Status (*cubinSize)(Handle, size_t *) = nullptr;
  Status (*cubin)(Handle, void *) = nullptr;
  Status (*errorLogSize)(Handle, size_t *) = nullptr;
  Status (*errorLog)(Handle, char *) = nullptr;
  Status (*infoLogSize)(Handle, size_t *) = nullptr;
  Status (*infoLog)(Handle, char *) = nullptr;
  Status (*version)(unsigned *, unsigned *) = nullptr;
};

/// One text being linked.
class Linker {
public:
  explicit Linker(const Functions &api) : api(api) {}
  Linker(const Linker &) = delete;
  Linker &operator=(const Linker &) = delete;
  ~Linker() {
    if (handle)
      api.destroy(&handle);
  }

  Status run(std::string_view ptx, std::vector<const char *> options) {
    const Status created = api.create(&handle, static_cast<uint32_t>(options.size()), options.data());
    if (created != kDone || !handle)
      return created;
    const std::string text(ptx); // its NUL is part of the input
    const Status added = api.addData(handle, kInputPtx, text.c_str(), text.size() + 1, "kernel.ptx");
    return added != kDone ? added : api.complete(handle);
  }

  std::string cubin() const {
    size_t bytes = 0;
    if (!handle || api.cubinSize(handle, &bytes) != kDone)
      return {};
    std::string code(bytes, '\0');
    return api.cubin(handle, code.data()) == kDone ? code : std::string();
  }

  std::string infoLog() const { return log(api.infoLogSize, api.infoLog); }
  std::string errorLog() const { return log(api.errorLogSize, api.errorLog); }

private:
  std::string log(Status (*size)(Handle, size_t *), Status (*get)(Handle, char *)) const {
    size_t bytes = 0;
    if (!handle || size(handle, &bytes) != kDone || bytes == 0)
      return {};
    std::string text(bytes + 1, '\0');
    if (get(handle, text.data()) != kDone)
      return {};
    return text.c_str(); // NOLINT(readability-redundant-string-cstr): up to its NUL
  }

  const Functions &api;
  Handle handle = nullptr;
};

class NvJitLink : public Assembler {
public:
  NvJitLink(std::string path, const Functions &api) : library(std::move(path)), api(api) {}

  const std::string &path() const override { return library; }

  Result<std::string> version() const override {
    unsigned major = 0;
    unsigned minor = 0;
    if (const Status status = api.version(&major, &minor); status != kDone)
      return Error(fmt::format("{}: nvJitLinkVersion: error {}", library, status));
    return fmt::format("nvJitLink {}.{}", major, minor);
  }

  Result<Assembly> assemble(std::string_view ptx, const AssemblyOptions &options) const override {
    const std::string architecture = "-arch=" + options.architecture;
    const std::string optimization = fmt::format("-O{}", options.optimization);
    const std::string registers = fmt::format("-maxrregcount={}", options.maxRegisters);
    std::vector<const char *> arguments = {architecture.c_str(), optimization.c_str(), "-verbose"};
    if (options.maxRegisters > 0)
      arguments.push_back(registers.c_str());

    Linker linker(api);
    const Status status = linker.run(ptx, arguments);
    std::string code = linker.cubin();
    // A refused text can end with success and an empty cubin; the error log tells.
    const std::string errors = linker.errorLog();
    if (status != kDone || code.empty() || errors.find("ERROR NVJITLINK") != std::string::npos)
      return Error(fmt::format("{} cannot assemble for {} (error {}):\n{}", library, options.architecture, status,
                               errors.empty() ? linker.infoLog() : errors));
    return Assembly{std::move(code), parseAssemblyLog(linker.infoLog() + errors)};
  }

private:
  std::string library;
  Functions api;
};

} // namespace

Result<std::unique_ptr<Assembler>> openNvJitLink(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Error(dlerror());
  Functions api;
  const char *missing = nullptr;
  const auto get = [&](auto &function, const char *name) {
    void *address = dlsym(library, name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    if (!address && !missing)
      missing = name;
  };
  get(api.create, "nvJitLinkCreate");
  get(api.destroy, "nvJitLinkDestroy");
  get(api.addData, "nvJitLinkAddData");
  get(api.complete, "nvJitLinkComplete");
  get(api.cubinSize, "nvJitLinkGetLinkedCubinSize");
  get(api.cubin, "nvJitLinkGetLinkedCubin");
  get(api.errorLogSize, "nvJitLinkGetErrorLogSize");
  get(api.errorLog, "nvJitLinkGetErrorLog");
  get(api.infoLogSize, "nvJitLinkGetInfoLogSize");
  get(api.infoLog, "nvJitLinkGetInfoLog");
  get(api.version, "nvJitLinkVersion");
  if (missing)
    return Error(fmt::format("{} has no function {}", path, missing));
  return std::unique_ptr<Assembler>(std::make_unique<NvJitLink>(path, api));
}

} // namespace yaglom::cuda
