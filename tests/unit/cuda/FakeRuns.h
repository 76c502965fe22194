// Running kernels in the fake driver: PTX by the emulator, on memory behind addresses that only the fake GPU knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Abi.h"
#include "tests/unit/cuda/FakeCuda.h"

#include <memory>
#include <string>

namespace yaglom::fakecuda {

struct FakeModule;

struct FakeFunction {
  std::string name;
  std::shared_ptr<FakeModule> module;
};

/// Memory of `device` that holds NaNs. Its address is nothing on the host, and far from others.
uint64_t allocate(State &state, size_t bytes, int device);
/// Parses PTX. A cubin is for no GPU of ours. `log` says what is wrong.
cuda::abi::Status load(const char *image, cuda::abi::Module *module, std::string &log);
cuda::abi::Status find(cuda::abi::Module module, const std::string &name, cuda::abi::Function *function);
std::vector<size_t> parameterBytes(cuda::abi::Function function);
/// Runs a launch to its end. Each parameter that is an address in memory of `device` is a pointer there.
cuda::abi::Status run(State &state, const FakeFunction &function, const FakeLaunch &launch, int device);

} // namespace yaglom::fakecuda
