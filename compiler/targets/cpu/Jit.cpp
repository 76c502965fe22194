// ORC's LLJIT with JITLink, one for each kernel.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/cpu/Jit.h"

#include "compiler/targets/cpu/Observers.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

namespace yaglom::compiler::cpu {

struct LoadedCode::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

LoadedCode::LoadedCode(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
LoadedCode::~LoadedCode() = default;

static Error toError(const char *what, llvm::Error error) {
  return Error(std::string(what) + ": " + llvm::toString(std::move(error)));
}

Result<std::shared_ptr<LoadedCode>> LoadedCode::load(std::unique_ptr<llvm::MemoryBuffer> object) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return toError("cannot start the loader", jit.takeError());
  // memcpy and memset, which code generation may call, and a sanitizer's runtime, come from this process.
  auto process =
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess((*jit)->getDataLayout().getGlobalPrefix());
  if (!process)
    return toError("cannot read this process's symbols", process.takeError());
  (*jit)->getMainJITDylib().addGenerator(std::move(*process));
  addObservers(**jit, Profile::ofEnvironment());
  if (llvm::Error error = (*jit)->addObjectFile(std::move(object)))
    return toError("cannot load the code", std::move(error));
  return std::shared_ptr<LoadedCode>(new LoadedCode(std::make_unique<Impl>(Impl{std::move(*jit)})));
}

Result<void *> LoadedCode::find(const std::string &name) const {
  auto address = impl->jit->lookup(name);
  if (!address)
    return toError("cannot link the code", address.takeError());
  return address->toPtr<void *>();
}

} // namespace yaglom::compiler::cpu
