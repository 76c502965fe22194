// Plugins of the JIT's linker. LLVM has those of gdb and of perf's jitdump; the map, which needs no `perf inject`, is ours.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/Observers.h"

#include "support/Warning.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/Orc/Debugging/DebugInfoSupport.h"
#include "llvm/ExecutionEngine/Orc/Debugging/ELFDebugObjectPlugin.h"
#include "llvm/ExecutionEngine/Orc/Debugging/PerfSupportPlugin.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderPerf.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <mutex>
#include <string>

namespace yaglom::compiler::cpu {
namespace {

using namespace llvm;
using namespace llvm::orc;

/// A line `START SIZE NAME`, in hexadecimal, for each function: tools/perf/Documentation/jit-interface.txt of Linux.
class PerfMap : public ObjectLinkingLayer::Plugin {
public:
  void modifyPassConfig(MaterializationResponsibility &, jitlink::LinkGraph &,
                        jitlink::PassConfiguration &config) override {
    config.PostFixupPasses.emplace_back(&addLines);
  }
  llvm::Error notifyFailed(MaterializationResponsibility &) override { return llvm::Error::success(); }
  llvm::Error notifyRemovingResources(JITDylib &, ResourceKey) override { return llvm::Error::success(); }
  void notifyTransferringResources(JITDylib &, ResourceKey, ResourceKey) override {}

private:
  static llvm::Error addLines(jitlink::LinkGraph &graph) {
    append(linesOf(graph));
    return llvm::Error::success();
  }

  static std::string linesOf(jitlink::LinkGraph &graph) {
    std::string lines;
    for (jitlink::Symbol *symbol : graph.defined_symbols())
      if (symbol->hasName() && symbol->isCallable())
        lines += fmt::format("{:x} {:x} {}\n", symbol->getAddress().getValue(), symbol->getSize(),
                             StringRef(*symbol->getName()).str());
    return lines;
  }

  /// The first time in a process the file of an earlier process with its number is emptied. A link is not followed: the
  /// folder is everyone's.
  static void append(const std::string &lines) {
    static std::mutex mutex;
    static std::string current;
    const std::lock_guard lock(mutex);
    const std::string path = fmt::format("/tmp/perf-{}.map", getpid()); // where perf looks
    const int truncate = path == current ? 0 : O_TRUNC;
    current = path;
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | truncate, 0600);
    const bool written = file >= 0 && write(file, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
    if (file >= 0)
      close(file);
    if (!written)
      warn(fmt::format("YAGLOM_PROFILE: cannot write '{}'", path));
  }
};

/// Its functions are of this process: nothing is looked up by name, which fails where yaglom was loaded with RTLD_LOCAL.
std::shared_ptr<ObjectLinkingLayer::Plugin> jitdump(ExecutionSession &session) {
  return std::make_shared<PerfSupportPlugin>(
      session.getExecutorProcessControl(), ExecutorAddr::fromPtr(&llvm_orc_registerJITLoaderPerfStart),
      ExecutorAddr::fromPtr(&llvm_orc_registerJITLoaderPerfEnd),
      ExecutorAddr::fromPtr(&llvm_orc_registerJITLoaderPerfImpl), /*EmitDebugInfo=*/true,
      /*EmitUnwindInfo=*/false); // LLVM 22 prints a line for each
}

} // namespace

void addObservers(LLJIT &jit, const Profile &profile) {
  auto *const layer = llvm::dyn_cast<ObjectLinkingLayer>(&jit.getObjLinkingLayer());
  if (!layer || (!profile.perf && !profile.jitdump && !profile.gdb))
    return;
  if (profile.perf)
    layer->addPlugin(std::make_shared<PerfMap>());
  if (profile.jitdump) {
    layer->addPlugin(std::make_shared<DebugInfoPreservationPlugin>()); // the linker drops what no code refers to
    layer->addPlugin(jitdump(jit.getExecutionSession()));
  }
  if (profile.gdb) {
    llvm::Error failure = llvm::Error::success();
    auto plugin = std::make_shared<ELFDebugObjectPlugin>(jit.getExecutionSession(), /*RequireDebugSections=*/false,
                                                         /*AutoRegisterCode=*/true, failure);
    if (failure) {
      warn("YAGLOM_PROFILE: gdb is not told of code: " + llvm::toString(std::move(failure)));
      return;
    }
    layer->addPlugin(std::move(plugin));
  }
}

} // namespace yaglom::compiler::cpu
