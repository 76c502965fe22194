// The fake driver as tests use it: loaded, reset, and its calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Launch.h"
#include "tests/unit/Catch.h"
#include "tests/unit/cuda/FakeCuda.h"

#include <algorithm>
#include <dlfcn.h>

namespace yaglom::fakecuda {

/// The fake driver's library, with its state reset. Make one at the start of a test.
class Fake {
public:
  explicit Fake(const char *path = YAGLOM_FAKE_CUDA) : path(path) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    reinterpret_cast<ResetFunction>(dlsym(library, "fakeCudaReset"))();
    state = reinterpret_cast<StateFunction>(dlsym(library, "fakeCudaState"))();
  }
  ~Fake() { dlclose(library); }
  Fake(const Fake &) = delete;
  Fake &operator=(const Fake &) = delete;

  State *operator->() { return state; }
  Result<cuda::DriverPointer> open() { return cuda::Driver::open(path); }
  cuda::DriverPointer driver() { return open().value(); }
  cuda::Context context(int ordinal = 0) { return cuda::Context::retain(driver(), ordinal).value(); }

  int count(const std::string &call) {
    return static_cast<int>(std::count(state->calls.begin(), state->calls.end(), call));
  }

  /// The calls since the last time it was asked, without those that look for the current context.
  std::vector<std::string> calls() {
    std::vector<std::string> all = std::move(state->calls);
    state->calls.clear();
    std::erase(all, "cuCtxGetCurrent");
    return all;
  }

  const char *path;

private:
  void *library;
  State *state;
};

/// What `result`, which has no value, says.
template <typename T>
std::string said(const Result<T> &result) {
  return result ? std::string("(a value)") : result.error().what();
}

inline constexpr const char *kPtx = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                    ".visible .entry attend(.param .u64 p, .param .u32 n) { ret; }\n";

using Calls = std::vector<std::string>;

} // namespace yaglom::fakecuda
